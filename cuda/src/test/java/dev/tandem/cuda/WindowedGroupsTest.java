package dev.tandem.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.cuda.kernels.GpuRig;
import dev.tandem.engine.EngineHarness;
import dev.tandem.engine.clock.Clock;
import dev.tandem.engine.executor.ExecutorLimits;
import dev.tandem.engine.kv.KvTier;
import dev.tandem.engine.observe.Timeline;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Preemption;
import dev.tandem.fetch.Progress;
import dev.tandem.model.Checkpoint;
import dev.tandem.model.Checkpoint.LoadFormat;
import dev.tandem.model.config.DataType;
import java.util.List;
import java.util.OptionalInt;
import java.util.SplittableRandom;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** A context that is longer than the pool, in a model of two layers without and six with a window of 20 tokens. */
@Tag("gpu")
class WindowedGroupsTest {
    private static final long SEED = 67;
    private static final Budget BUDGET = new Budget(64, 16, 64);
    private static final int PROMPT = 150;
    private static final int OUTPUT = 70;
    /** 176 tokens of all layers. */
    private static final int SMALL = 11;

    @Test
    void aPoolThatHoldsTheWindowsComputesWhatALargePoolDoes() {
        assertThat(tokens(SMALL)).as("seed %d", SEED).isEqualTo(tokens(40));
    }

    private static List<Integer> tokens(int gpuBlocks) {
        CudaOptions options = CudaOptions.builder(DataType.FLOAT16, BUDGET.maxBatchTokens(), 16)
                .memoryUtilization(0.5)
                .gpuBlocks(OptionalInt.of(gpuBlocks))
                .hostBytes(8 << 20)
                .build();
        CudaExecutor executor = new CudaExecutor(
                Checkpoint.open(CudaModelTest.FAMILIES.resolve("deepgroups"), LoadFormat.DUMMY, SEED),
                options,
                GpuRig.libraries(),
                GpuRig.compiler(),
                Clock.system(),
                Timeline.OFF,
                Progress.SILENT,
                UnaryOperator.identity());
        executor.faults().poisonPools();
        ExecutorLimits limits = executor.limits();
        assertThat(limits.layout().groups()).isEqualTo(4);
        assertThat(limits.maxHeld(KvTier.GPU, PROMPT + OUTPUT)).isEqualTo(4 * SMALL);
        int[] prompt = new SplittableRandom(SEED).ints(PROMPT, 3, 301).toArray();
        try (EngineHarness engine = EngineHarness.gpuOnly(executor, BUDGET, Preemption.RECOMPUTE)) {
            engine.submit("long", prompt, EngineHarness.greedy(OUTPUT));
            engine.run();
            assertThat(engine.tokens("long")).hasSize(OUTPUT);
            return engine.tokens("long");
        }
    }
}
