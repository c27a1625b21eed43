package dev.tandem.app;

import dev.tandem.app.config.Configuration;
import dev.tandem.app.config.ConfigurationFile;
import dev.tandem.app.config.ConfigurationFile.Entry;
import dev.tandem.app.config.ConfigurationFile.Problem;
import dev.tandem.app.config.KnownOptions;
import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.server.http.Printable;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.Callable;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Parameters;

/** Runs {@code config check}: names everything that is wrong with a configuration file. */
@Command(
        name = "check",
        mixinStandardHelpOptions = true,
        description = "Names unknown keys, wrong types and values out of range of a configuration file, each with its"
                + " line. Neither a model nor a GPU is needed.",
        footerHeading = "%nExamples:%n",
        footer = {"  tandem config check tandem.yaml"})
final class ConfigCheckCommand implements Callable<Integer> {
    @Parameters(paramLabel = "FILE", description = "The configuration file.")
    Path path = Path.of("");

    @Override
    public Integer call() {
        ConfigurationFile file = ConfigurationFile.read("the file", path, ServeCommand.known());
        List<Problem> problems = new ArrayList<>(file.problems());
        problems.addAll(outOfRange(file));
        problems.sort(Comparator.comparingInt(Problem::line));
        problems.forEach(problem -> System.err.println(Printable.oneLine(file.text(problem))));
        if (!problems.isEmpty()) {
            return ExitCode.CANNOT_START;
        }
        int options = file.entries().size();
        System.out.println(path + ": " + options + (options == 1 ? " option" : " options") + ", nothing is wrong");
        return ExitCode.OK;
    }

    /**
     * Checks the valid lines as {@code serve} does, which ends at the first problem. The line of a problem is left out
     * in the next round, so that every problem is found.
     */
    private static List<Problem> outOfRange(ConfigurationFile file) {
        Map<String, Entry> left = new LinkedHashMap<>(file.entries());
        List<Problem> problems = new ArrayList<>();
        while (true) {
            ServeCommand serve = new ServeCommand();
            CommandLine parser = ServeCommand.parser(serve);
            KnownOptions.presetTo(parser, left);
            parser.parseArgs();
            try {
                serve.check();
                return problems;
            } catch (ConfigurationException e) {
                String message = String.valueOf(e.getMessage());
                Optional<String> culprit = Configuration.named(message).stream()
                        .filter(left::containsKey)
                        .findFirst();
                problems.add(
                        new Problem(culprit.map(left::remove).map(Entry::line).orElse(0), message));
                if (culprit.isEmpty()) {
                    return problems;
                }
            }
        }
    }
}
