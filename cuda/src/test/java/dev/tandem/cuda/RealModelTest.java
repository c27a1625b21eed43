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
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.OptionalInt;
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

    private record Golden(String name, int[] prompt, List<Integer> greedy) {}

    static Stream<Arguments> modelsAndPlacements() {
        return Stream.of("qwen2.5-coder-0.5b", "gemma3-270m")
                .flatMap(model -> Stream.of("GPU", "HOST", "MIXED", "MIGRATING")
                        .map(placement -> Arguments.of(model, placement)));
    }

    private static List<Golden> goldens(String model) throws IOException {
        List<Golden> goldens = new ArrayList<>();
        try (Stream<Path> files = Files.list(GOLDENS.resolve(model))) {
            for (Path file : files.sorted().toList()) {
                String json = Files.readString(file);
                goldens.add(new Golden(
                        file.getFileName().toString(),
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
            List<Golden> goldens = goldens(model);
            for (Golden golden : goldens) {
                for (int copy = 0; copy < COPIES; copy++) {
                    engine.submit(
                            golden.name() + copy,
                            golden.prompt(),
                            SamplingParams.builder()
                                    .temperature(0)
                                    .maxTokens(golden.greedy().size())
                                    .ignoreEos(true)
                                    .logprobs(20)
                                    .build());
                }
            }
            engine.run();
            int onHost = engine.answers.values().stream()
                    .mapToInt(answer -> answer.usage.hostTokens())
                    .sum();
            assertThat(onHost > 0).as("tokens decoded on the host: %d", onHost).isEqualTo(!placement.equals("GPU"));
            for (Golden golden : goldens) {
                for (int copy = 0; copy < COPIES; copy++) {
                    check(model + ", " + placement, golden, engine.answers.get(golden.name() + copy));
                }
            }
        }
    }

    private static void check(String what, Golden golden, EngineHarness.Answer answer) {
        int agreed = agreed(answer.tokens, golden.greedy());
        System.out.printf(
                "%s, %s: %d tokens agree, %d on the host%n", what, golden.name(), agreed, answer.usage.hostTokens());
        if (agreed < golden.greedy().size()) {
            // tokens after the first difference have other contexts
            assertThat(gap(answer.logprobs.get(agreed), golden.greedy().get(agreed)))
                    .as("%s, %s, token %d", what, golden.name(), agreed)
                    .isLessThan(NEAR_TIE);
        }
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
