package dev.tandem.cpu;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.engine.executor.Readiness;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.engine.sampling.TokenSampler;
import dev.tandem.engine.step.Admission;
import dev.tandem.engine.step.AttentionSite;
import dev.tandem.engine.step.Chunk;
import dev.tandem.engine.step.StepPlan;
import dev.tandem.engine.step.StepResult;
import dev.tandem.engine.step.SubBatch;
import dev.tandem.model.config.DataType;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/**
 * In-flight tokens that a plan resumes finish within its step, as {@code dev.tandem.cuda.ResumedTokenTest} demands of
 * the CUDA executor. The model has five layers.
 */
class ResumedTokenTest {
    private static final int[] TOKENS = {5, 9, 200, 31, 7, 12, 99, 4, 77, 150};
    private static final int HALF = TOKENS.length / 2;
    private static final int SLOTS = 8;

    /** Each token passes one layer per step. */
    private final CpuExecutor executor = TestModels.deep(DataType.BFLOAT16, 16, 16, Readiness.allLate());

    private long step;

    @AfterEach
    void close() {
        executor.close();
    }

    private StepResult run(List<Chunk> chunks, List<Admission> admissions, List<Long> pause, List<Long> resume) {
        List<SubBatch> batches = chunks.isEmpty() ? List.of() : List.of(new SubBatch(chunks));
        executor.submit(new StepPlan(step++, List.of(), batches, admissions, SLOTS, pause, resume));
        return executor.poll();
    }

    private StepResult resume(Long... sequences) {
        return run(List.of(), List.of(), List.of(), List.of(sequences));
    }

    private static TokenSampler greedy() {
        return new TokenSampler(
                SamplingParams.builder().temperature(0).maxTokens(100).build(), TOKENS, Set.of(), 0);
    }

    private static int[] block(long sequence) {
        return new int[] {(int) sequence};
    }

    private static Chunk chunk(long sequence, int from, int to, AttentionSite site) {
        return new Chunk(
                sequence, from, Arrays.copyOfRange(TOKENS, from, to), block(sequence), site, Optional.of(greedy()));
    }

    /** Puts the first half of the tokens on the host and admits the next one, all in one step each. */
    private void admit(long... sequences) {
        for (long sequence : sequences) {
            run(List.of(chunk(sequence, 0, HALF, AttentionSite.GPU_PREFILL_OFFLOAD)), List.of(), List.of(), List.of());
        }
        for (long sequence : sequences) {
            Admission admission = new Admission(sequence, HALF, TOKENS[HALF], block(sequence), greedy());
            assertThat(run(List.of(), List.of(admission), List.of(), List.of()).sampled())
                    .isEmpty();
        }
    }

    /** Tokens by sequence. */
    private static Map<Long, Integer> sampled(StepResult result) {
        return result.sampled().stream()
                .collect(Collectors.toMap(
                        StepResult.Sampled::sequence,
                        sampled -> sampled.choice().token()));
    }

    @Test
    void someTokensFinishFromTheirLayersAndThenAllOthers() {
        run(List.of(chunk(9, 0, HALF, AttentionSite.GPU_FROM_GPU)), List.of(), List.of(), List.of());
        StepResult alone =
                run(List.of(chunk(9, HALF, HALF + 1, AttentionSite.GPU_FROM_GPU)), List.of(), List.of(), List.of());
        int expected = sampled(alone).get(9L);
        admit(1, 2, 3, 4, 5);
        assertThat(sampled(resume(2L, 5L))).isEqualTo(Map.of(2L, expected, 5L, expected, 1L, expected));
        assertThat(sampled(resume(3L, 4L))).isEqualTo(Map.of(3L, expected, 4L, expected));
    }

    @Test
    void aTokenThatIsPausedAndResumedAtOnceIsPaused() {
        admit(1, 2);
        StepResult result = run(List.of(), List.of(), List.of(1L), List.of(1L, 2L));
        assertThat(sampled(result)).containsOnlyKeys(2L);
        assertThat(result.paused()).containsExactly(1L);
    }

    @Test
    void aTokenThatIsNotInFlightIsLeftOut() {
        admit(1);
        assertThat(sampled(resume(99L, 1L))).containsOnlyKeys(1L);
        assertThat(resume(1L).sampled()).isEmpty();
    }
}
