package dev.tandem.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeFalse;

import dev.tandem.cuda.HybridModelTest.Placement;
import dev.tandem.cuda.kernels.GpuRig;
import dev.tandem.engine.EngineHarness;
import dev.tandem.engine.clock.Clock;
import dev.tandem.engine.observe.Timeline;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.engine.request.TokenLogprobs;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Policy;
import dev.tandem.engine.schedule.PolicyScheduler;
import dev.tandem.engine.schedule.Preemption;
import dev.tandem.engine.strategy.GpuOnly;
import dev.tandem.fetch.Progress;
import dev.tandem.model.Checkpoint;
import dev.tandem.model.Checkpoint.LoadFormat;
import dev.tandem.model.config.DataType;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalInt;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * Real weights on the GPU: 32 greedy tokens of transformers in FP32 on the same GGUF file. They are the goldens of the
 * CPU executor: four prompts of Qwen2.5-Coder-0.5B-Instruct, and one longer than the window of Gemma 3 270M. The
 * properties {@code tandem.coder.model} and {@code tandem.gemma.model} name the files.
 */
@Tag("gpu")
class RealModelTest {
    private static final Path GOLDENS = CudaModelTest.FAMILIES.resolveSibling("");
    /** Requests per prompt: more than the GPU's blocks hold. */
    private static final int COPIES = 3;

    private static final Budget BUDGET = new Budget(2_048, 16, 2_048);
    /**
     * Max difference of log-probability between the two tokens where the GPU leaves the FP32 reference. Token 8 of
     * Gemma's golden is 0.16 ahead of the next in FP32. On an H100 it is 0.13 to 0.48 behind, by the rows of the step
     * that computes it, and equally so in the build before groups of layers (a910ea1a). On the CPU, KV in BF16 alone
     * puts it 0.05 behind.
     */
    private static final double NEAR_TIE = 0.6;

    private record Golden(int[] prompt, List<Integer> greedy) {
        /** The prompt and the first greedy tokens. */
        int[] begun(int tokens) {
            return IntStream.concat(
                            IntStream.of(prompt),
                            greedy.subList(0, tokens).stream().mapToInt(Integer::intValue))
                    .toArray();
        }
    }

    static Stream<Arguments> modelsAndPlacements() {
        return Stream.of("qwen2.5-coder-0.5b", "gemma3-270m")
                .flatMap(model -> Stream.of("GPU", "HOST", "MIXED", "MIGRATING")
                        .map(placement -> Arguments.of(model, placement)));
    }

    private static Map<String, Golden> goldens(String model) throws IOException {
        Map<String, Golden> goldens = new LinkedHashMap<>();
        try (Stream<Path> files = Files.list(GOLDENS.resolve(model))) {
            for (Path file : files.sorted().toList()) {
                String json = Files.readString(file);
                goldens.put(
                        file.getFileName().toString(),
                        new Golden(
                                CudaModelTest.Golden.ints(json, "prompt"),
                                Arrays.stream(CudaModelTest.Golden.ints(json, "greedy"))
                                        .boxed()
                                        .toList()));
            }
        }
        return goldens;
    }

    private static Policy policy(String placement) {
        return placement.equals("GPU")
                ? new GpuOnly(BUDGET, Preemption.SWAP)
                : HybridModelTest.policy(Placement.valueOf(placement), BUDGET);
    }

    @ParameterizedTest
    @MethodSource("modelsAndPlacements")
    void greedyTokensMatchTransformers(String model, String placement) throws IOException {
        boolean gemma = model.startsWith("gemma");
        String property = gemma ? "tandem.gemma.model" : "tandem.coder.model";
        String file = System.getProperty(property, "");
        assumeFalse(file.isEmpty(), "the property " + property + " is not set");
        CudaOptions options = CudaOptions.builder(DataType.BFLOAT16, BUDGET.maxBatchTokens(), 64)
                .memoryUtilization(0.5)
                .gpuBlocks(OptionalInt.of(gemma ? 80 : 16))
                .hostBytes(256 << 20)
                .attentionThreads(placement.equals("GPU") ? 0 : 4, true, 10_000_000_000L)
                .kvChecksums(true)
                .build();
        CudaExecutor executor = new CudaExecutor(
                Checkpoint.open(Path.of(file), LoadFormat.AUTO, 0),
                options,
                GpuRig.libraries(),
                GpuRig.compiler(),
                Clock.system(),
                Timeline.OFF,
                Progress.SILENT,
                attention -> attention);
        executor.faults().poisonPools();
        try (EngineHarness engine = new EngineHarness(executor, PolicyScheduler.of(policy(placement)), BUDGET)) {
            Map<String, Golden> goldens = goldens(model);
            // tokens that the goldens begin with; the GPU is asked for those after them
            Map<String, Integer> begun = new LinkedHashMap<>();
            for (String name : goldens.keySet()) {
                for (int copy = 0; copy < COPIES; copy++) {
                    begun.put(name + "#" + copy, 0);
                }
            }
            compare(model + ", " + placement, engine, goldens, begun);
            int onHost = engine.answers.values().stream()
                    .mapToInt(answer -> answer.usage.hostTokens())
                    .sum();
            assertThat(onHost > 0).as("tokens decoded on the host: %d", onHost).isEqualTo(!placement.equals("GPU"));
        }
    }

    /** Where the GPU leaves a golden in a tie, it is asked again for what follows the golden's token. */
    private static void compare(
            String what, EngineHarness engine, Map<String, Golden> goldens, Map<String, Integer> begun) {
        for (int round = 0; !begun.isEmpty(); round++) {
            for (var entry : begun.entrySet()) {
                engine.submit(
                        entry.getKey() + "/" + round,
                        goldens.get(name(entry.getKey())).begun(entry.getValue()),
                        SamplingParams.builder()
                                .temperature(0)
                                .maxTokens(goldens.get(name(entry.getKey()))
                                                .greedy()
                                                .size()
                                        - entry.getValue())
                                .ignoreEos(true)
                                .logprobs(20)
                                .build());
            }
            engine.run();
            Map<String, Integer> left = new LinkedHashMap<>();
            for (var entry : begun.entrySet()) {
                List<Integer> greedy = goldens.get(name(entry.getKey())).greedy();
                EngineHarness.Answer answer = engine.answers.get(entry.getKey() + "/" + round);
                int agreed = agreed(answer.tokens, greedy.subList(entry.getValue(), greedy.size()));
                int token = entry.getValue() + agreed;
                System.out.printf(
                        "%s, %s: tokens %d to %d agree, %d on the host%n",
                        what, entry.getKey(), entry.getValue(), token, answer.usage.hostTokens());
                if (token < greedy.size()) {
                    double gap = gap(answer.logprobs.get(agreed), greedy.get(token));
                    System.out.printf("token %d is %.3f behind%n", token, gap);
                    assertThat(gap)
                            .as("%s, %s, token %d", what, entry.getKey(), token)
                            .isLessThan(NEAR_TIE);
                }
                if (token + 1 < greedy.size()) {
                    left.put(entry.getKey(), token + 1);
                }
            }
            begun = left;
        }
    }

    private static String name(String request) {
        return request.substring(0, request.indexOf('#'));
    }

    private static int agreed(List<Integer> actual, List<Integer> expected) {
        int agreed = 0;
        while (agreed < expected.size() && actual.get(agreed).equals(expected.get(agreed))) {
            agreed++;
        }
        return agreed;
    }

    /** How much less likely the GPU finds the reference's token than its own. */
    private static double gap(TokenLogprobs logprobs, int token) {
        for (int i = 0; i < logprobs.topTokens().length; i++) {
            if (logprobs.topTokens()[i] == token) {
                return logprobs.topLogprobs()[0] - logprobs.topLogprobs()[i];
            }
        }
        return Double.MAX_VALUE;
    }
}
