package dev.tandem.bench;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.tandem.engine.clock.VirtualClock;
import dev.tandem.engine.cost.CostModel;
import dev.tandem.engine.cost.Profile;
import dev.tandem.engine.executor.ExecutorLimits;
import dev.tandem.engine.kv.KvTier;
import dev.tandem.engine.kv.Swap;
import dev.tandem.engine.step.StepPlan;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/** How long a simulated step waits for swaps: a byte takes a microsecond, and the first of four layers waits. */
class SimulatedSwapTest {
    private static final int LAYERS = 4;
    private static final int TOKENS = 64;
    private static final int BYTES_PER_TOKEN = 1000;
    private static final String PROFILE = """
            name test
            layers 4
            linear 1 1e-12
            prefill-attention 1 1e-12
            gpu-attention 1 1e-12
            cpu-attention/1 1 1e-12
            transfer 1 1e-6
            transfer 1000000 1
            pre-layer 1 1e-12
            post-layer 1 1e-12
            step-overhead 0
            """;

    private static double seconds(List<Integer> windows) {
        VirtualClock clock = new VirtualClock();
        ExecutorLimits limits = ExecutorLimits.builder()
                .vocabulary(10)
                .contextTokens(2000)
                .blockTokens(16)
                .hostBlockTokens(64)
                .gpuBlocks(200)
                .hostBlocks(200)
                .maxBatchTokens(1000)
                .layers(LAYERS)
                .kvBytesPerToken(BYTES_PER_TOKEN)
                .windows(windows)
                .build();
        List<Swap> swaps = IntStream.range(0, limits.layout().groups())
                .mapToObj(group -> new Swap(1, KvTier.GPU, new int[4], KvTier.HOST, new int[1], TOKENS))
                .toList();
        SimulatedExecutor executor =
                new SimulatedExecutor(limits, new CostModel(Profile.parse(PROFILE, "the test profile")), clock);
        executor.submit(new StepPlan(1, swaps, List.of(), List.of(), 0, List.of(), List.of()));
        return clock.nanos() / 1e9;
    }

    @Test
    void aSwapPerGroupTakesAsLongAsOneOfAllLayers() {
        double whole = 1e-6 * TOKENS * BYTES_PER_TOKEN / LAYERS;
        assertThat(seconds(List.of())).isCloseTo(whole, within(1e-3 * whole));
        assertThat(seconds(List.of(100, 0, 100, 100))).as("a group per layer").isCloseTo(whole, within(1e-3 * whole));
    }
}
