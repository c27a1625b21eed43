package dev.tandem.app;

import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** Groups the commands about configuration. */
@Command(
        name = "config",
        mixinStandardHelpOptions = true,
        subcommands = {ConfigShowCommand.class, ConfigCheckCommand.class, CommandLine.HelpCommand.class},
        description = "Shows the options of serve and where their values come from, or checks a configuration file.",
        footerHeading = "%nExamples:%n",
        footer = {
            "  tandem config show --config tandem.yaml",
            "  tandem config show > tandem.yaml   a file to begin with",
            "  tandem config check tandem.yaml"
        })
final class ConfigCommand implements Runnable {
    @Spec
    CommandSpec spec;

    @Override
    public void run() {
        throw new ParameterException(spec.commandLine(), "tandem config needs show or check");
    }
}
