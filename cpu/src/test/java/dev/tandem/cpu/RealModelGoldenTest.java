package dev.tandem.cpu;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeFalse;

import dev.tandem.cpu.simd.ActivationPrecision;
import dev.tandem.engine.EngineHarness;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.PolicyScheduler;
import dev.tandem.model.Checkpoint;
import dev.tandem.model.Checkpoint.LoadFormat;
import dev.tandem.model.config.DataType;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;

/**
 * Real models against transformers on the same GGUF file, on every placement: 32 greedy tokens of four prompts of
 * Qwen2.5-Coder-0.5B-Instruct and 1.5B ({@code tools/make_goldens.py real}), and of a prompt longer than the window of
 * Gemma 3 270M ({@code tools/make_goldens.py long}). The properties {@code tandem.coder.model},
 * {@code tandem.coder.large.model} and {@code tandem.gemma.model} name the files, which {@code tandem pull} downloads
 * as {@code qwen2.5-coder:0.5b}, {@code qwen2.5-coder:1.5b} and {@code gemma3:270m}.
 *
 * <p>The files are large, so the tests are excluded by default.
 */
@Tag("slow")
class RealModelGoldenTest {
    private static final Budget BUDGET = new Budget(256, 16, 64);

    private record Prompt(int[] tokens, List<Integer> greedy) {}

    private static Path file(String property) {
        String file = System.getProperty(property, "");
        assumeFalse(file.isEmpty(), "the property " + property + " is not set");
        return Path.of(file);
    }

    private static Map<String, Prompt> prompts(String folder) {
        Map<String, Prompt> prompts = new LinkedHashMap<>();
        try (Stream<Path> files = Files.list(Path.of("src/test/resources", folder))) {
            for (Path file : files.sorted().toList()) {
                JsonNode json = new ObjectMapper().readTree(Files.readAllBytes(file));
                prompts.put(
                        json.get("message").asString(),
                        new Prompt(
                                ints(json.get("prompt")),
                                Arrays.stream(ints(json.get("greedy"))).boxed().toList()));
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        return prompts;
    }

    private static int[] ints(JsonNode list) {
        return list.valueStream().mapToInt(JsonNode::asInt).toArray();
    }

    static Stream<String> placements() {
        return Placements.NAMES.stream();
    }

    @ParameterizedTest
    @MethodSource("placements")
    void greedyTokensMatchTransformers(String placement) {
        check(placement, file("tandem.coder.model"), "qwen2.5-coder-0.5b", 16);
    }

    @ParameterizedTest
    @MethodSource("placements")
    void greedyTokensOfTheLargerMatchTransformers(String placement) {
        check(placement, file("tandem.coder.large.model"), "qwen2.5-coder-1.5b", 16);
    }

    @ParameterizedTest
    @MethodSource("placements")
    void greedyTokensMatchTransformersBeyondTheWindow(String placement) {
        check(placement, file("tandem.gemma.model"), "gemma3-270m", 80);
    }

    private static void check(String placement, Path file, String folder, int gpuBlocks) {
        CpuOptions options = new CpuOptions(
                2, 2, false, DataType.FLOAT32, ActivationPrecision.EXACT, DataType.FLOAT32, gpuBlocks, 100, 256);
        try (EngineHarness engine = new EngineHarness(
                new CpuExecutor(Checkpoint.open(file, LoadFormat.AUTO, 0), options),
                PolicyScheduler.of(Placements.policy(placement, BUDGET)),
                BUDGET)) {
            Map<String, Prompt> prompts = prompts(folder);
            prompts.forEach((message, prompt) -> engine.submit(message, prompt.tokens(), EngineHarness.greedy(32)));
            engine.run();
            prompts.forEach((message, prompt) ->
                    assertThat(engine.tokens(message)).as(message).isEqualTo(prompt.greedy()));
        }
    }
}
