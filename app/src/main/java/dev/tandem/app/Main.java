package dev.tandem.app;

import dev.tandem.app.config.Configuration;
import dev.tandem.app.config.KnownOptions;
import dev.tandem.app.config.OptionValues;
import dev.tandem.cpu.KernelWarmUp;
import dev.tandem.server.Version;
import dev.tandem.server.http.Printable;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.ParseResult;

/** The entry point of {@code tandem}. */
@Command(
        name = "tandem",
        mixinStandardHelpOptions = true,
        versionProvider = Main.TandemVersion.class,
        subcommands = {
            ServeCommand.class,
            GenerateCommand.class,
            ChatCommand.class,
            BenchCommand.class,
            ProfileCommand.class,
            IdealCommand.class,
            ReproduceCommand.class,
            DoctorCommand.class,
            PullCommand.class,
            ListCommand.class,
            RemoveCommand.class,
            PsCommand.class,
            TopCommand.class,
            ConfigCommand.class,
            CompletionCommand.class,
            CommandLine.HelpCommand.class
        },
        description = "Serves large language models on a GPU, with part of the KV cache and its attention on the CPU.",
        footerHeading = "%nExamples:%n",
        footer = {
            "  tandem serve                      the default model on 127.0.0.1:8000, OpenAI-compatible",
            "  tandem serve ORG/MODEL:Q4_K_M     a model of the hub, downloaded at the first use",
            "  tandem list                       the models on this machine, and short names of others",
            "  tandem top                        both tiers of a running server, live",
            "  tandem generate --prompt 'Hi'     one answer in the terminal",
            "  tandem chat                       a conversation in the terminal",
            "  tandem bench throughput           how fast this machine is",
            "  tandem profile                    the measurements that predictions use, taken again",
            "  tandem ideal --preset h200-26k    the best possible gain of a machine, and what limits it",
            "  tandem config show                every option, its value and where that comes from",
            "  tandem completion bash            what completes these commands in a shell",
            "  tandem doctor                     what was found on this machine, and what is missing"
        },
        exitCodeListHeading = "%nExit status:%n",
        exitCodeList = {
            "0:The command has done its work; a server has ended in order.",
            "1:A run or the engine failed after the start; standard error says why.",
            "2:An option, a file or this machine does not allow the start; one line says why and what to do.",
            "70:Tandem has made a mistake; please report it."
        })
public final class Main implements Runnable {
    private static final Set<String> HELP = Set.of("-h", "--help", "help", "-V", "--version");
    private static final Set<String> MODEL_COMMANDS = Set.of("serve", "generate", "chat", "bench", "profile");

    @CommandLine.Spec
    CommandLine.Model.CommandSpec spec;

    /** The text of {@code --version}. */
    static final class TandemVersion implements CommandLine.IVersionProvider {
        @Override
        public String[] getVersion() {
            return new String[] {"tandem " + Version.text() + " (commit " + BenchReport.commit() + ")"};
        }
    }

    private Main() {}

    public static void main(String[] args) {
        if (args.length > 0
                && MODEL_COMMANDS.contains(args[0])
                && Arrays.stream(args).noneMatch(HELP::contains)) {
            // started first, because parsing the command line leaves a core idle for a third of a second
            KernelWarmUp.start();
        }
        Logging.install();
        System.exit(execute(args));
    }

    /** Runs a command with this process's environment. */
    static int execute(String... args) {
        return execute(System.getenv(), args);
    }

    /** Runs a command and returns the exit status; prints errors on standard error. */
    static int execute(Map<String, String> environment, String... args) {
        OptionValues values = new OptionValues(ServeCommand::known, environment);
        try {
            return command(values)
                    .setParameterExceptionHandler((error, given) -> ErrorReport.of(error, System.err))
                    .setExecutionExceptionHandler(
                            (error, command, parsed) -> ErrorReport.of(error, Configuration.of(command), System.err))
                    .setExecutionStrategy(parsed -> {
                        warnings(parsed, values).forEach(System.err::println);
                        return new CommandLine.RunLast().execute(parsed);
                    })
                    .execute(args);
        } catch (RuntimeException | Error e) { // picocli's handlers do not catch an Error
            return ErrorReport.of(e, System.err);
        }
    }

    /** Warnings of variables that set nothing, for commands that read them. */
    private static List<String> warnings(ParseResult parsed, OptionValues values) {
        ParseResult last = parsed;
        while (last.hasSubcommand()) {
            last = last.subcommand();
        }
        return last.commandSpec().findOption("--" + KnownOptions.CONFIG) == null
                        || last.isUsageHelpRequested()
                        || last.isVersionHelpRequested()
                ? List.of()
                : values.unknownVariables().stream()
                        .map(sentence -> "warning: " + Printable.oneLine(sentence))
                        .toList();
    }

    /** The command line with its help, without the environment. */
    static CommandLine command() {
        return command(new OptionValues(ServeCommand::known, Map.of()));
    }

    private static CommandLine command(OptionValues values) {
        CommandLine command = new CommandLine(new Main())
                .setCaseInsensitiveEnumValuesAllowed(true)
                .setDefaultValueProvider(values);
        SectionedHelp.install(command);
        return command;
    }

    @Override
    public void run() {
        throw new CommandLine.ParameterException(spec.commandLine(), "no command is given; the first is tandem serve");
    }
}
