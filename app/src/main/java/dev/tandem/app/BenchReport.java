package dev.tandem.app;

import dev.tandem.bench.Statistics;
import dev.tandem.cpu.probe.MachineProbe;
import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.engine.cost.CostModel;
import dev.tandem.engine.observe.EngineListener;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import picocli.CommandLine.Option;
import tools.jackson.databind.ObjectMapper;

/** Writes a result as a table for people, as one JSON object for programs, and as a line of a results file. */
@Section(Section.Heading.COMMAND)
final class BenchReport {
    @Option(names = "--json", description = "Print the result as one JSON object. Default: a table.")
    boolean json;

    @Option(
            names = "--result-file",
            paramLabel = "FILE",
            description = "Append the result as a line of JSON to this file. Default: none.")
    Optional<Path> resultFile = Optional.empty();

    /** @throws ConfigurationException when a results file is given and cannot be written */
    void check() {
        resultFile.ifPresent(file -> OutputFile.check("--result-file", file));
    }

    /** Starts an engine to measure, without the guard unless the options ask for it; prints its summary on stderr. */
    static EngineAssembly start(ModelOptions options, EngineListener listener) {
        StartLog log = new StartLog(System.err, true);
        EngineAssembly assembly = EngineAssembly.start(options, EngineAssembly.Use.MEASURE, listener, log);
        log.printSummary();
        return assembly;
    }

    /** The commit, machine, model and options, which every result contains. */
    static Map<String, Object> circumstances(ModelOptions options, String model, List<String> flags) {
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("commit", commit());
        String gpu = options.gpu.chosen()
                ? GpuOptions.name(options.gpu.number()).map(name -> name + ", ").orElse("")
                : "";
        result.put("machine", gpu + MachineProbe.machine());
        result.put("flags", String.join(" ", flags));
        result.put("time", now());
        result.put("preset", options.advanced.preset.map(Preset::flag).orElse(options.gpu.chosen() ? "gpu" : "cpu"));
        result.put("model", model);
        result.put("dtype", options.dtype);
        return result;
    }

    /** Adds how well a cost model predicted: its error of whole steps, and measured over profiled time by component. */
    static void addPredictions(Map<String, Object> result, CostModel cost) {
        result.put("prediction_error", Statistics.rounded(cost.error()));
        cost.corrections()
                .forEach((component, factor) -> result.put(
                        "correction_" + component.name().toLowerCase(Locale.ROOT), Statistics.rounded(factor)));
        if (cost.measuredSubBatches()) {
            result.put("correction_sub_batches", Statistics.rounded(cost.subBatchesFactor()));
        }
    }

    static String now() {
        return Instant.now().truncatedTo(ChronoUnit.SECONDS).toString();
    }

    /** The commit that was built, with {@code -dirty} where files were changed; unknown outside a git checkout. */
    static String commit() {
        try (InputStream resource = BenchReport.class.getResourceAsStream("commit.txt")) {
            String id = resource == null ? "" : new String(resource.readAllBytes(), StandardCharsets.UTF_8).strip();
            return id.isEmpty() ? "unknown" : id;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    void write(Map<String, Object> result) throws IOException {
        String line = new ObjectMapper().writeValueAsString(result);
        if (json) {
            System.out.println(line);
        } else {
            result.forEach((key, value) -> System.out.printf("%-34s %s%n", key, value));
        }
        if (resultFile.isPresent()) {
            Files.createDirectories(resultFile.get().toAbsolutePath().getParent());
            Files.writeString(resultFile.get(), line + "\n", StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        }
    }
}
