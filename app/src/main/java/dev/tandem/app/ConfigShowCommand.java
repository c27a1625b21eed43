package dev.tandem.app;

import dev.tandem.app.config.Configuration;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Spec;

/** Runs {@code config show}: prints every option of {@code serve} with the source of its value. */
@Command(
        name = "show",
        mixinStandardHelpOptions = true,
        description = "Prints the options of serve as a configuration file, with the source of each value: command"
                + " line, variable, file with line, or default. Keys of the API are never printed.",
        footerHeading = "%nExamples:%n",
        footer = {"  tandem config show --config tandem.yaml --port 9000"})
final class ConfigShowCommand implements Callable<Integer> {
    @Mixin
    ModelOptions options = new ModelOptions();

    @Mixin
    ServerOptions listen = new ServerOptions();

    @Mixin
    HttpOptions http = new HttpOptions();

    @Mixin
    TraceOptions traces = new TraceOptions();

    @Spec
    CommandSpec spec;

    @Override
    public Integer call() {
        Configuration.of(spec.commandLine()).yaml().forEach(System.out::println);
        return ExitCode.OK;
    }
}
