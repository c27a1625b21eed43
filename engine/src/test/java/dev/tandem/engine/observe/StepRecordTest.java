package dev.tandem.engine.observe;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.engine.EngineHarness;
import dev.tandem.engine.sampling.Choice;
import dev.tandem.engine.sampling.TokenSampler;
import dev.tandem.engine.step.AttentionSite;
import dev.tandem.engine.step.Chunk;
import dev.tandem.engine.step.StepPlan;
import dev.tandem.engine.step.StepResult;
import dev.tandem.engine.step.StepTimes;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import org.junit.jupiter.api.Test;

class StepRecordTest {
    private static Chunk chunk(long sequence, int start, int rows, AttentionSite site) {
        TokenSampler sampler = new TokenSampler(EngineHarness.greedy(9), new int[] {1}, Set.of(), 0);
        return new Chunk(sequence, start, new int[rows], new int[] {0}, site, Optional.of(sampler));
    }

    private static StepResult.Sampled sampled(long sequence, AttentionSite site) {
        return new StepResult.Sampled(sequence, new Choice(7, Optional.empty()), site);
    }

    /** Chunks 2 and 4 have no result, because their sequences have ended; in-flight tokens are counted all the same. */
    @Test
    void inFlightTokensThatWereSampledCountAsDecoded() {
        StepPlan plan = StepPlan.unified(
                3,
                List.of(),
                List.of(
                        chunk(1, 5, 1, AttentionSite.GPU_FROM_GPU),
                        chunk(2, 6, 1, AttentionSite.GPU_FROM_GPU),
                        chunk(3, 4, 1, AttentionSite.CPU_FROM_HOST),
                        chunk(4, 4, 1, AttentionSite.CPU_FROM_HOST),
                        chunk(5, 0, 8, AttentionSite.GPU_FROM_GPU)));
        StepResult result = new StepResult(
                3,
                List.of(
                        sampled(20, AttentionSite.CPU_FROM_HOST),
                        sampled(1, AttentionSite.GPU_FROM_GPU),
                        sampled(3, AttentionSite.CPU_FROM_HOST),
                        sampled(5, AttentionSite.GPU_FROM_GPU)),
                List.of(),
                List.of(),
                StepTimes.NONE);
        StepRecord.Tokens tokens = StepRecord.of(plan, result, 0, 0, 0, StepRecord.Sampling.AT_ONCE)
                .tokens();
        assertThat(tokens).isEqualTo(new StepRecord.Tokens(8, 4 + 1, 2 + 1));
    }
}
