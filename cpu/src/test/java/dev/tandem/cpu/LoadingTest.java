package dev.tandem.cpu;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.cpu.simd.ActivationPrecision;
import dev.tandem.engine.EngineHarness;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Preemption;
import dev.tandem.model.Checkpoint;
import dev.tandem.model.Checkpoint.LoadFormat;
import dev.tandem.model.ModelException;
import dev.tandem.model.config.DataType;
import dev.tandem.model.weights.Tensor;
import dev.tandem.model.weights.Weights;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Loading of weights: a missing tensor, and dummy weights. */
class LoadingTest {
    private static final CpuOptions OPTIONS =
            new CpuOptions(1, 1, false, DataType.BFLOAT16, ActivationPrecision.EXACT, DataType.BFLOAT16, 8, 0, 64);

    /** Weights in which one tensor is missing. */
    private record Without(Weights all, String missing) implements Weights {
        @Override
        public boolean contains(String name) {
            return !name.equals(missing) && all.contains(name);
        }

        @Override
        public Tensor tensor(String name) {
            if (name.equals(missing)) {
                throw new ModelException("no tensor " + name);
            }
            return all.tensor(name);
        }

        @Override
        public String origin() {
            return all.origin();
        }

        @Override
        public void close() {
            all.close();
        }
    }

    @Test
    void aMissingTensorIsNamedAndTheCallerKeepsTheModel() {
        Checkpoint whole = TestModels.open("llama2");
        String missing = "model.layers.1.mlp.up_proj.weight";
        try (Checkpoint broken = new Checkpoint(
                "broken", whole.spec(), new Without(whole.weights(), missing), whole.defaults(), whole.tokenizer())) {
            assertThatThrownBy(() -> new CpuExecutor(broken, OPTIONS))
                    .isInstanceOf(ModelException.class)
                    .hasMessageContaining(missing);
        }
    }

    /** {@code llama2} has a head of its own, {@code olmo3} shares it; {@code qwen2} has biases. */
    @ParameterizedTest
    @ValueSource(strings = {"llama2", "olmo3", "qwen2", "gemma3"})
    void loadingTellsHowFarItIs(String family) {
        List<Long> done = new ArrayList<>();
        Set<Long> totals = new HashSet<>();
        Checkpoint watched = TestModels.open(family).watched((bytes, total) -> {
            done.add(bytes);
            totals.add(total);
        });
        new CpuExecutor(watched, OPTIONS).close();
        assertThat(done).isSorted().hasSizeGreaterThan(10);
        assertThat(totals).containsExactly(done.getLast());
    }

    @ParameterizedTest
    @ValueSource(strings = {"llama31", "llama32", "qwen2", "qwen3"})
    void dummyWeightsDependOnTheirSeedOnly(String family) {
        List<Integer> first = dummyTokens(family, 1);
        assertThat(first).hasSize(12).isEqualTo(dummyTokens(family, 1)).isNotEqualTo(dummyTokens(family, 2));
    }

    private static List<Integer> dummyTokens(String family, long seed) {
        Checkpoint checkpoint = Checkpoint.open(TestModels.directory(family), LoadFormat.DUMMY, seed);
        try (EngineHarness engine =
                EngineHarness.gpuOnly(new CpuExecutor(checkpoint, OPTIONS), new Budget(64, 4, 64), Preemption.SWAP)) {
            engine.submit("r", new int[] {5, 6, 7}, EngineHarness.greedy(12));
            engine.run();
            return engine.tokens("r");
        }
    }
}
