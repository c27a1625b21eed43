package dev.tandem.cuda.step;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.cuda.forward.SlotLayers;
import dev.tandem.engine.executor.ExecutorException;
import dev.tandem.engine.kv.KvView;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.engine.sampling.PromptScorer;
import dev.tandem.engine.sampling.TokenSampler;
import dev.tandem.engine.step.Admission;
import dev.tandem.engine.step.AttentionSite;
import dev.tandem.engine.step.Chunk;
import dev.tandem.engine.step.StepPlan;
import dev.tandem.engine.step.SubBatch;
import java.util.Collections;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.stream.LongStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** The slots of a step, and the layers that compute them. It needs no GPU. */
class PlanRowsTest {
    private static final int LAYERS = 8;

    private static StepPlan plan(int slots, int resumed) {
        List<Long> sequences = LongStream.range(0, resumed).boxed().toList();
        return new StepPlan(1, List.of(), List.of(), List.of(), slots, List.of(), sequences);
    }

    @ParameterizedTest
    @CsvSource({
        "0, 0, 64, 0",
        "1, 0, 64, 8",
        "9, 0, 64, 16",
        "64, 0, 64, 64",
        "200, 0, 64, 64",
        "65, 0, 1024, 128",
        "200, 0, 1024, 256",
        "1000, 0, 1024, 1024",
        "90, 0, 100, 100",
        "8, 3, 64, 8",
        "64, 3, 64, 61",
        "5, 64, 64, 0",
        "0, 3, 64, 0"
    })
    void slotsAreRoundedUpAndLeaveRoomForResumedTokens(int wanted, int resumed, int max, int slots) {
        assertThat(PlanRows.slots(plan(wanted, resumed), max)).isEqualTo(slots);
    }

    private static Optional<SlotLayers> slotLayers(int slots, int resumed, Integer... returning) {
        return PlanRows.slotLayers(plan(slots, resumed), slots, () -> List.of(returning));
    }

    @Test
    void aLayerHasAsManySlotsAsTokensThatMayReturnThere() {
        assertThat(slotLayers(128, 0, 0, 0, 100, 120, 120, 20, 20, 0))
                .contains(SlotLayers.counting(List.of(0, 0, 0, 100, 120, 120, 20, 20, 0)));
        assertThat(slotLayers(128, 0, 0, 0, 130, 130, 130, 0, 0, 0))
                .as("not more than slots")
                .contains(SlotLayers.counting(List.of(0, 0, 0, 128, 128, 128, 0, 0, 0)));
        assertThat(slotLayers(128, 0, 0, 0, 0, 0, 0, 0, 0, 0))
                .as("nothing in flight")
                .contains(SlotLayers.counting(Collections.nCopies(LAYERS + 1, 0)));
    }

    @Test
    void aCohortThatEntersIsComputedBeforeLayer0() {
        Admission admission = new Admission(
                3,
                1,
                5,
                new int[] {0},
                new TokenSampler(SamplingParams.builder().build(), new int[] {5}, Set.of(), 1));
        StepPlan enters = new StepPlan(1, List.of(), List.of(), List.of(admission), 128, List.of(), List.of());
        assertThat(PlanRows.slotLayers(enters, 128, () -> List.of(0, 0, 0, 0, 0, 70, 70, 70)))
                .as("one token enters beside those at layer 5")
                .contains(SlotLayers.counting(List.of(1, 0, 0, 0, 0, 0, 70, 70, 70)));
    }

    /** Behind slots that are fewer at some layers, rows of resumed tokens would have no place. */
    @Test
    void allSlotsAreComputedWhereTheyAreFewOrMostAreNeededOrTokensFinish() {
        assertThat(slotLayers(64, 0, 0, 0, 20, 20, 20, 0, 0, 0)).isEmpty();
        assertThat(slotLayers(128, 0, 0, 128, 128, 128, 128, 0, 0, 0))
                .as("half of them")
                .isPresent();
        assertThat(slotLayers(128, 0, 0, 128, 128, 128, 128, 1, 0, 0)).isEmpty();
        assertThat(slotLayers(128, 1, 0, 0, 20, 20, 20, 0, 0, 0)).isEmpty();
    }

    @ParameterizedTest
    @CsvSource({"0, 384, 384", "1, 64, 65", "21, 64, 88", "21, 384, 408", "64, 128, 192", "65, 128, 224"})
    void rowsBesideSlotsThatAreCountedByLayerArePaddedWithoutThem(int rows, int slots, int padded) {
        assertThat(GraphCache.paddedBeside(rows, slots)).isEqualTo(padded);
    }

    /** With 100 slots the inputs of a step have room for 256 and 100 rows. */
    @ParameterizedTest
    @CsvSource({"121, 128", "330, 356", "356, 356"})
    void rowsArePaddedToNoMoreThanTheInputsHold(int rows, int padded) {
        assertThat(GraphCache.bucketWithin(rows, 356)).isEqualTo(padded);
    }

    @Test
    void moreTokensThanSlotsAreAnErrorThatNamesBoth() {
        assertThatCode(() -> PlanRows.ordered(plan(8, 64), 64)).doesNotThrowAnyException();
        assertThatThrownBy(() -> PlanRows.ordered(plan(8, 65), 64))
                .isInstanceOf(ExecutorException.class)
                .hasMessageContaining("65 finish within the step")
                .hasMessageContaining("64 slots")
                .hasMessageContaining("--max-num-seqs");
    }

    @Test
    void promptsAreScoredInTheFirstSubBatchAlone() {
        int[] prompt = {5, 6, 7};
        Chunk chunk = new Chunk(
                3,
                0,
                new int[] {5},
                List.of(KvView.of(new int[] {0})),
                AttentionSite.GPU_FROM_GPU,
                Optional.empty(),
                Optional.of(new PromptScorer(prompt, 0)));
        SubBatch other = new SubBatch(List.of());
        SubBatch scored = new SubBatch(List.of(chunk));
        assertThatCode(() -> PlanRows.ordered(plan(List.of(scored, other)), 64)).doesNotThrowAnyException();
        assertThatThrownBy(() -> PlanRows.ordered(plan(List.of(other, scored)), 64))
                .isInstanceOf(ExecutorException.class)
                .hasMessageContaining("sequence 3");
    }

    private static StepPlan plan(List<SubBatch> batches) {
        return new StepPlan(1, List.of(), batches, List.of(), 0, List.of(), List.of());
    }

    private static StepPlan sampling(SamplingParams params) {
        TokenSampler sampler = new TokenSampler(params, new int[] {5}, Set.of(), 1);
        Chunk chunk = new Chunk(
                3, 1, new int[] {Chunk.PLACEHOLDER}, new int[] {0}, AttentionSite.GPU_FROM_GPU, Optional.of(sampler));
        return StepPlan.unified(7, List.of(), List.of(chunk));
    }

    @Test
    void aDrawThatDependsOnAnUnreadResultIsRefused() {
        SamplingParams.Builder params = SamplingParams.builder().temperature(1).maxTokens(4);
        assertThatCode(() -> PlanRows.requireIndependent(sampling(params.build())))
                .doesNotThrowAnyException();
        assertThatThrownBy(() -> PlanRows.requireIndependent(
                        sampling(params.presencePenalty(0.5).build())))
                .isInstanceOf(ExecutorException.class)
                .hasMessageContaining("plan 7 samples sequence 3")
                .hasMessageContaining("submit its layers");
    }

    @Test
    void withoutAttentionThreadsThereAreNoInFlightTokens() {
        assertThatThrownBy(() -> PlanRows.ordered(plan(8, 0), 0)).isInstanceOf(ExecutorException.class);
        assertThatThrownBy(() -> PlanRows.ordered(plan(0, 1), 0)).isInstanceOf(ExecutorException.class);
        assertThatCode(() -> PlanRows.ordered(plan(0, 0), 0)).doesNotThrowAnyException();
    }
}
