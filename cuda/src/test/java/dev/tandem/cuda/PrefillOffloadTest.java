package dev.tandem.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.cuda.kernels.GpuRig;
import dev.tandem.engine.EngineHarness;
import dev.tandem.engine.clock.Clock;
import dev.tandem.engine.observe.Timeline;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.PolicyScheduler;
import dev.tandem.engine.strategy.TestProfile;
import dev.tandem.engine.strategy.TierRules;
import dev.tandem.engine.strategy.select.Strategy;
import dev.tandem.fetch.Progress;
import dev.tandem.model.Checkpoint;
import dev.tandem.model.Checkpoint.LoadFormat;
import dev.tandem.model.config.DataType;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.function.UnaryOperator;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Prefill offload, in one chunk and in several, of models with and without enough layers for the copy engine. */
@Tag("gpu")
class PrefillOffloadTest {
    private static final long SEED = 31;
    /** Prompts longer than this are offloaded in chunks. */
    private static final Budget BUDGET = new Budget(48, 16, 48);

    /** The longest have 195 tokens, and windows of 20: their last chunks begin behind a host block that is freed. */
    private static final int PROMPTS = 20;

    @TempDir
    Path directory;

    /** Heads of 16 are padded on the GPU but not on the host, so that copies of host blocks have gaps between them. */
    @ParameterizedTest
    @CsvSource({"16, FLOAT16", "16, BFLOAT16", "64, FLOAT16", "64, BFLOAT16"})
    void firstTokensMatchTheGpuAloneForEveryMethodOfCopying(int headDim, DataType type) throws IOException {
        String config = Files.readString(CudaModelTest.FAMILIES.resolve("deep").resolve("config.json"));
        Files.writeString(
                directory.resolve("config.json"),
                config.replace("\"head_dim\": 16", "\"head_dim\": " + headDim)
                        .replace("\"num_hidden_layers\": 5", "\"num_hidden_layers\": 9"));
        firstTokensMatchTheGpuAlone(type);
    }

    /**
     * Groups of one layer, which are staged in whole pages; of two, which kernels copy; and of four, which the copy
     * engine copies.
     *
     * @param layers a letter per layer: w with a window of 20 tokens, f without
     */
    @ParameterizedTest
    @CsvSource({"wwwfww", "wfwwwfww", "wfwfwfwf"})
    void firstTokensMatchTheGpuAloneForEverySizeOfGroups(String layers) throws IOException {
        String config =
                Files.readString(CudaModelTest.FAMILIES.resolve("deepgroups").resolve("config.json"));
        String types = layers.chars()
                .mapToObj(layer -> layer == 'w' ? "\"sliding_attention\"" : "\"full_attention\"")
                .collect(Collectors.joining(", "));
        Files.writeString(
                directory.resolve("config.json"),
                config.replaceFirst("\"layer_types\": \\[[^]]*]", "\"layer_types\": [" + types + "]")
                        .replace("\"num_hidden_layers\": 8", "\"num_hidden_layers\": " + layers.length()));
        for (DataType type : List.of(DataType.FLOAT16, DataType.BFLOAT16)) {
            firstTokensMatchTheGpuAlone(type);
        }
    }

    private void firstTokensMatchTheGpuAlone(DataType type) {
        List<Integer> alone = firstTokens(Strategy.GPU_ONLY, type, false, true);
        for (boolean checksums : List.of(true, false)) { // without them chunks are planned ahead
            assertThat(firstTokens(Strategy.FASTDECODE_PLUS, type, false, checksums))
                    .as("by the copy engine, checksums %s, seed %d", checksums, SEED)
                    .isEqualTo(alone);
            assertThat(firstTokens(Strategy.FASTDECODE_PLUS, type, true, checksums))
                    .as("by kernels, checksums %s, seed %d", checksums, SEED)
                    .isEqualTo(alone);
        }
    }

    private List<Integer> firstTokens(Strategy strategy, DataType type, boolean byKernels, boolean checksums) {
        CudaExecutor executor = new CudaExecutor(
                Checkpoint.open(directory, LoadFormat.DUMMY, SEED),
                CudaModelTest.options(type, 40, true, 3, 10_000, checksums),
                GpuRig.libraries(),
                GpuRig.compiler(),
                Clock.system(),
                Timeline.OFF,
                Progress.SILENT,
                UnaryOperator.identity());
        executor.faults().poisonPools();
        if (byKernels) {
            executor.faults().offloadPrefillByKernels();
        }
        var policy = strategy.policy(HybridModelTest.options(BUDGET, TierRules.neutral()), TestProfile.withCpu(100));
        SplittableRandom random = new SplittableRandom(SEED);
        List<Integer> tokens = new ArrayList<>();
        try (EngineHarness engine = new EngineHarness(executor, PolicyScheduler.of(policy), BUDGET)) {
            for (int i = 0; i < PROMPTS; i++) {
                int[] prompt = random.ints(5 + 10 * i, 3, 301).toArray();
                engine.submit("r" + i, prompt, EngineHarness.greedy(1));
                engine.run();
                tokens.addAll(engine.tokens("r" + i));
            }
        }
        return tokens;
    }
}
