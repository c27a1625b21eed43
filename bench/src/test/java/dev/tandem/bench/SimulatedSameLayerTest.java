package dev.tandem.bench;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.tandem.engine.clock.VirtualClock;
import dev.tandem.engine.cost.CostModel;
import dev.tandem.engine.cost.Profile;
import dev.tandem.engine.executor.ExecutorLimits;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.engine.sampling.TokenSampler;
import dev.tandem.engine.step.AttentionSite;
import dev.tandem.engine.step.Chunk;
import dev.tandem.engine.step.StepPlan;
import dev.tandem.engine.step.SubBatch;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import org.junit.jupiter.api.Test;

/** The simulated time of a step of one batch with host tokens. */
class SimulatedSameLayerTest {
    private static final String PROFILE = """
            name test
            layers 2
            linear 1 10
            linear 1000 10
            prefill-attention 1 0.001
            gpu-attention 1 0.01
            gpu-attention 100000 1000
            cpu-attention/1 1 0.1
            cpu-attention/1 10000 1000
            transfer 1 1e-9
            pre-layer 1 1e-9
            post-layer 1 1e-9
            step-overhead 0
            stage-overhead 0.5
            trip-overhead 2
            """;

    private static double seconds(int gpuContext, int hostContext) {
        VirtualClock clock = new VirtualClock();
        ExecutorLimits limits = ExecutorLimits.builder()
                .vocabulary(10)
                .contextTokens(2000)
                .blockTokens(16)
                .gpuBlocks(200)
                .hostBlocks(200)
                .maxBatchTokens(64)
                .layers(2)
                .kvBytesPerToken(1)
                .build();
        try (SimulatedExecutor executor =
                new SimulatedExecutor(limits, new CostModel(Profile.parse(PROFILE, "the test profile")), clock)) {
            executor.submit(new StepPlan(
                    0,
                    List.of(),
                    List.of(new SubBatch(List.of(
                            decode(0, gpuContext, AttentionSite.GPU_FROM_GPU),
                            decode(1, hostContext, AttentionSite.CPU_FROM_HOST)))),
                    List.of(),
                    0,
                    List.of(),
                    List.of()));
            executor.poll();
        }
        return clock.nanos() / 1e9;
    }

    private static Chunk decode(long sequence, int context, AttentionSite site) {
        TokenSampler sampler = new TokenSampler(SamplingParams.builder().build(), new int[1], Set.of(), 1);
        return new Chunk(sequence, context - 1, new int[1], new int[200], site, Optional.of(sampler));
    }

    @Test
    void attentionOfBothSidesOverlapsInALayer() {
        assertThat(seconds(1000, 40)).as("the CPU's 4 + 2 hide behind 10").isCloseTo(2 * (10 + 10.5), within(1e-6));
        assertThat(seconds(1000, 120)).as("the GPU waits for 12 + 2").isCloseTo(2 * (10 + 14), within(1e-6));
    }
}
