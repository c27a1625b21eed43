package dev.tandem.app;

import java.util.concurrent.Callable;
import picocli.AutoComplete;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/** Runs {@code completion}: prints the script with which a shell completes commands and options. */
@Command(
        name = "completion",
        mixinStandardHelpOptions = true,
        description = "Prints a script with which a shell completes the commands and options of tandem.",
        footerHeading = "%nExamples:%n",
        footer = {
            "  source <(tandem completion bash)                     in this shell",
            "  tandem completion bash > ~/.local/share/bash-completion/completions/tandem",
            "  source <(tandem completion zsh)                      in ~/.zshrc"
        })
final class CompletionCommand implements Callable<Integer> {
    /**
     * The shells for which picocli writes scripts: one script, which turns on zsh's support of bash's scripts itself.
     */
    enum Shell {
        BASH,
        ZSH
    }

    @Parameters(paramLabel = "SHELL", description = "bash or zsh.")
    Shell shell = Shell.BASH;

    @Spec
    CommandSpec spec;

    @Override
    public Integer call() {
        System.out.print(AutoComplete.bash("tandem", spec.root().commandLine()));
        return ExitCode.OK;
    }
}
