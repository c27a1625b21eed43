package dev.tandem.app.config;

import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;

/** A command with options of every kind that {@code serve} has. */
@Command(name = "serve")
final class SampleCommand implements Runnable {
    enum Colour {
        RED,
        GREEN
    }

    @Parameters(arity = "0..1", paramLabel = "MODEL")
    Optional<String> model = Optional.empty();

    @Option(names = "--config")
    Optional<Path> config = Optional.empty();

    @Option(names = "--port", defaultValue = "8000")
    int port;

    @Option(names = "--colour", defaultValue = "red")
    Colour colour = Colour.RED;

    @Option(names = "--name")
    Optional<String> name = Optional.empty();

    @Option(names = "--key", converter = Secret.Converter.class)
    Optional<Secret> key = Optional.empty();

    @Option(names = "--hosts", split = ",")
    List<String> hosts = List.of();

    @Option(names = "--guard", negatable = true, fallbackValue = "true")
    Optional<Boolean> guard = Optional.empty();

    @Option(names = "--ui", negatable = true, defaultValue = "true", fallbackValue = "true")
    boolean ui = true;

    @Option(names = "--eager", fallbackValue = "true")
    boolean eager;

    @Override
    public void run() {}

    static KnownOptions known() {
        return new KnownOptions(new CommandLine(new SampleCommand()).setCaseInsensitiveEnumValuesAllowed(true));
    }

    /** A parser that reads the environment and files. */
    static CommandLine parser(SampleCommand command, Map<String, String> environment) {
        return new CommandLine(command)
                .setCaseInsensitiveEnumValuesAllowed(true)
                .setDefaultValueProvider(new OptionValues(SampleCommand::known, environment));
    }
}
