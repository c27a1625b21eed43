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
import dev.tandem.model.Checkpoint;
import dev.tandem.model.config.DataType;
import dev.tandem.model.config.ModelConfig;
import java.lang.foreign.Arena;
import java.util.Arrays;
import java.util.EnumMap;
import java.util.List;
import java.util.Optional;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** Logits and greedy tokens of every family against Hugging Face transformers. */
class FamilyGoldenTest {
    static Stream<Arguments> familiesAndTypes() {
        return TestModels.FAMILIES.stream()
                .flatMap(family -> Stream.of(DataType.values()).map(type -> Arguments.of(family, type)));
    }

    static Stream<String> families() {
        return TestModels.FAMILIES.stream();
    }

    @ParameterizedTest
    @MethodSource("familiesAndTypes")
    void logitsMatchTransformers(String family, DataType type) {
        Golden golden = Golden.of(TestModels.directory(family));
        try (Checkpoint checkpoint = TestModels.open(family);
                WorkerPool workers = new WorkerPool(2, false);
                Arena arena = Arena.ofShared()) {
            ModelConfig config = checkpoint.config();
            EnumMap<KvTier, KvStore> stores = new EnumMap<>(KvTier.class);
            stores.put(
                    KvTier.GPU,
                    new KvStore(KvTier.GPU, 8, config.layers(), config.kvHeads(), config.headDim(), type, arena));
            MatrixPacker packer = new MatrixPacker(
                    arena, (count, body) -> IntStream.range(0, count).forEach(body));
            LlamaWeights weights = LlamaWeights.load(config, checkpoint.weights(), type, packer);
            LlamaForward forward = new LlamaForward(config, weights, stores, workers, workers.size(), arena);
            Activations a = new Activations(config);
            int[] blocks = {5, 0, 3};
            a.load(
                    new SubBatch(List.of(
                            new Chunk(1, 0, golden.prompt(), blocks, AttentionSite.GPU_FROM_GPU, Optional.empty()))),
                    forward.tileTokens(),
                    0);
            forward.embed(a);
            for (int layer = 0; layer < config.layers(); layer++) {
                forward.preProjection(a, layer);
                forward.attention(a, layer, Activations.AttentionKind.PREFILL);
                forward.postProjection(a, layer);
            }
            int rows = golden.prompt().length;
            float[] logits = new float[rows * forward.logitsWidth()];
            forward.logits(a, logits);
            float[] dense = new float[rows * config.vocabulary()];
            for (int row = 0; row < rows; row++) {
                System.arraycopy(
                        logits, row * forward.logitsWidth(), dense, row * config.vocabulary(), config.vocabulary());
            }
            double error = TestModels.relativeError(dense, 0, golden.logits(), 0, dense.length);
            // fp16 keeps three more bits than bf16
            double bound = switch (type) {
                case FLOAT32 -> 1e-4;
                case FLOAT16 -> 5e-3;
                case BFLOAT16 -> 2e-2;
            };
            assertThat(error)
                    .as("%s %s: relative L2 of the logits of all positions", family, type)
                    .isLessThan(bound);
        }
    }

    @ParameterizedTest
    @MethodSource("families")
    void greedyTokensMatchTransformersInFp32(String family) {
        Golden golden = Golden.of(TestModels.directory(family));
        Budget budget = new Budget(64, 4, 16);
        try (EngineHarness engine = EngineHarness.gpuOnly(
                TestModels.executor(family, DataType.FLOAT32, 16, 16, 2), budget, Preemption.SWAP)) {
            engine.submit("r", golden.prompt(), EngineHarness.greedy(golden.greedy().length));
            engine.run();
            assertThat(engine.tokens("r"))
                    .isEqualTo(Arrays.stream(golden.greedy()).boxed().toList());
        }
    }
}
