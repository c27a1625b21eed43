package dev.tandem.cpu;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.engine.request.SamplingParams;
import dev.tandem.engine.sampling.TokenSampler;
import dev.tandem.engine.step.AttentionSite;
import dev.tandem.engine.step.Chunk;
import dev.tandem.engine.step.StepPlan;
import dev.tandem.engine.step.StepResult;
import dev.tandem.model.config.DataType;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/** A sequence whose token cannot be sampled fails alone. */
class SamplingFaultTest {
    private static Chunk chunk(long sequence, int block, TokenSampler sampler) {
        return new Chunk(
                sequence, 0, new int[] {5, 6, 7}, new int[] {block}, AttentionSite.GPU_FROM_GPU, Optional.of(sampler));
    }

    @Test
    void aSequenceThatCannotBeSampledIsLostAndOthersAreNot() {
        try (CpuExecutor executor = TestModels.executor("llama2", DataType.FLOAT32, 8, 0, 2)) {
            Set<Integer> all =
                    IntStream.range(0, executor.limits().vocabulary()).boxed().collect(Collectors.toSet());
            SamplingParams params = SamplingParams.builder().minTokens(1).build();
            TokenSampler impossible = new TokenSampler(params, new int[] {5, 6, 7}, all, 1);
            TokenSampler plain = new TokenSampler(params, new int[] {5, 6, 7}, Set.of(), 1);
            executor.submit(StepPlan.unified(
                    0, List.of(), List.of(chunk(1, 0, plain), chunk(2, 1, impossible), chunk(3, 2, plain))));
            StepResult result = executor.poll();
            assertThat(result.sampled())
                    .extracting(StepResult.Sampled::sequence)
                    .containsExactly(1L, 3L);
            assertThat(result.lost()).singleElement().satisfies(lost -> {
                assertThat(lost.sequence()).isEqualTo(2);
                assertThat(lost.cause()).isEqualTo(StepResult.Cause.SAMPLING);
                assertThat(lost.message()).contains("no token may be chosen");
                assertThat(lost.stillInUse()).isFalse();
            });
            executor.submit(StepPlan.unified(1, List.of(), List.of(chunk(4, 1, plain))));
            assertThat(executor.poll().sampled()).hasSize(1);
        }
    }
}
