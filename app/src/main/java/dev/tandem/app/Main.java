package dev.tandem.app;

import dev.tandem.cpu.KernelWarmUp;
import dev.tandem.engine.request.RequestException;
import dev.tandem.fetch.FetchException;
import dev.tandem.model.ModelException;
import dev.tandem.text.TokenizerException;
import dev.tandem.text.jinja.JinjaException;
import java.util.Set;
import picocli.CommandLine;
import picocli.CommandLine.Command;

/** {@code tandem}. */
@Command(
        name = "tandem",
        mixinStandardHelpOptions = true,
        version = "tandem 0.1.0",
        subcommands = {
            ServeCommand.class,
            GenerateCommand.class,
            BenchCommand.class,
            ProfileCommand.class,
            DoctorCommand.class,
            CommandLine.HelpCommand.class},
        description = {
            "Serves large language models, letting the host CPU share the attention.",
            "",
            "  tandem serve                      the default model on 127.0.0.1:8000, OpenAI-compatible",
            "  tandem generate --prompt 'Hi'     one answer in the terminal",
            "  tandem bench throughput           how fast this machine is",
            "  tandem profile                    what the strategies decide by, measured again",
            "  tandem doctor                     what was found on this machine, and what is missing"
        })
public final class Main {
    private static final Set<String> RUN_A_MODEL = Set.of("serve", "generate", "bench", "profile");

    private Main() {}

    public static void main(String[] args) {
        if (args.length > 0 && RUN_A_MODEL.contains(args[0])) {
            // before anything else: reading the command line leaves a core idle for a third of a second
            KernelWarmUp.start();
        }
        Logging.install();
        int code = commandLine().execute(args);
        System.exit(code);
    }

    static CommandLine commandLine() {
        return new CommandLine(new Main())
                .setCaseInsensitiveEnumValuesAllowed(true)
                .setExecutionExceptionHandler(Main::explain);
    }

    /** Trouble a user can mend is one line; anything else keeps its stack trace. */
    private static int explain(Exception e, CommandLine command, CommandLine.ParseResult parsed) throws Exception {
        switch (e) {
            case ModelException known -> tell(known);
            case FetchException known -> tell(known);
            case TokenizerException known -> tell(known);
            case JinjaException known -> tell(known);
            case RequestException known -> tell(known);
            case IllegalArgumentException known -> tell(known);
            default -> throw e;
        }
        return CommandLine.ExitCode.SOFTWARE;
    }

    private static void tell(RuntimeException e) {
        System.err.println("tandem: " + e.getMessage());
    }
}
