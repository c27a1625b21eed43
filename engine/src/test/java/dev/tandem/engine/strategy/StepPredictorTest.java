package dev.tandem.engine.strategy;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.tandem.engine.cost.CostModel;
import dev.tandem.engine.cost.Profile;
import dev.tandem.engine.executor.CheapRows;
import dev.tandem.engine.executor.PiggybackedPrefill;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Load;
import dev.tandem.engine.schedule.Scene;
import dev.tandem.engine.schedule.Shape;
import dev.tandem.engine.schedule.StepDraft;
import dev.tandem.engine.step.AttentionSite;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/**
 * Predictions with a profile in which each part of a step takes another time, so that none can be left out unseen. In
 * each of 2 layers a row takes 1 s, and attention per token 0.01 s on the GPU and 0.02 s on the CPU, and per pair of a
 * prompt 0.001 s. A stage takes 0.25 s more, a trip 1.5 s, and a byte of a transfer 1 s.
 */
class StepPredictorTest {
    private static final String TEXT = """
            name each part of a step
            layers 2
            linear 1 1
            linear 10000 10000
            prefill-attention 1 0.001
            gpu-attention 1 0.01
            cpu-attention/1 1 0.02
            cpu-attention/100 1 2
            transfer 1 1
            pre-layer 1 0.5
            post-layer 1 3
            step-overhead 7
            stage-overhead 0.25
            trip-overhead 1.5
            host-load 1.25
            """;

    private static final CostModel COST = new CostModel(Profile.parse(TEXT, "the test"));

    private static final StepPredictor OVERLAPPING = new StepPredictor(COST, true, 0);
    private static final StepPredictor IN_TURN = new StepPredictor(COST, false, 0);
    private static final Budget BUDGET = new Budget(100, 20, 100);

    private final Scene scene = new Scene(500, 500, BUDGET);
    private final StepDraft draft = new StepDraft(scene.state, BUDGET);

    /** Seconds before and after the layers. */
    private static double outside(int rows, int outputs) {
        return 0.5 * rows + 3 * outputs + 7;
    }

    private Load zero() {
        return draft.load(0);
    }

    private Load one() {
        return draft.load(1);
    }

    private void gpu(int batch, int context) {
        draft.add(batch, scene.gpu(context), 1, AttentionSite.GPU_FROM_GPU);
    }

    private void host(int batch, int context) {
        draft.add(batch, scene.host(context), 1, AttentionSite.CPU_FROM_HOST);
    }

    private static void assertSeconds(double predicted, double expected) {
        assertThat(predicted).isCloseTo(expected, within(1e-9));
    }

    @Test
    void aStepOfTheGpuHasAllItsParts() {
        gpu(0, 20);
        gpu(0, 30);
        draft.start(scene.waiting(8), 8, AttentionSite.GPU_FROM_GPU); // 36 pairs
        double layers = 2 * (10 + 0.5 + 0.036);
        assertSeconds(OVERLAPPING.gpuOnly(zero()), outside(10, 3) + layers);
        assertSeconds(OVERLAPPING.ofLayers().gpuOnly(zero()), layers);
    }

    @Test
    void aStepWithSameLayerTokensWaitsForTheLaterOfBothTiers() {
        gpu(0, 20);
        gpu(0, 30);
        assertSeconds(OVERLAPPING.sameLayer(zero()), outside(2, 2) + 2 * (2 + 0.5)); // no host token, no overhead
        host(0, 40);
        assertSeconds(OVERLAPPING.sameLayer(zero()), outside(3, 3) + 2 * (3 + 0.8 + 1.5));
        assertSeconds(IN_TURN.sameLayer(zero()), outside(3, 3) + 2 * (3 + 0.5 + 0.8 + 1.5));
        gpu(0, 300);
        assertSeconds(OVERLAPPING.sameLayer(zero()), outside(4, 4) + 2 * (4 + 3.5 + 0.25));
    }

    /** Each host token takes 0.125 s of the GPU in each layer. */
    @Test
    void whatTheGpuSendsAndReceivesIsPartOfItsTime() {
        StepPredictor sending =
                new StepPredictor(new CostModel(Profile.parse(TEXT + "token-overhead 0.125\n", "the test")), true, 0);
        gpu(0, 300);
        host(0, 40);
        host(0, 40);
        assertSeconds(sending.sameLayer(zero()), outside(3, 3) + 2 * (3 + 3 + 0.25 + 2 * 0.125));
        host(1, 20);
        double layer = 2 * 0.25 + 3 + 2 * 0.125 + 1 + 0.125 + 3;
        assertSeconds(sending.pipeline(zero(), one()), outside(4, 4) + 2 * layer);
        assertSeconds(sending.pipelineWith(zero(), one(), 1, 10), outside(5, 5) + 2 * (layer + 1 + 0.125));
        double estimate = 2 * 0.25 + 2 + 2 + 2 * 0.125 + 9;
        assertSeconds(sending.pipelined(2, 900, 2, 10, 0, 0), outside(4, 4) + 2 * estimate);
    }

    @Test
    void anEstimateOfSameLayerTokensHasPromptsWithoutOutputs() {
        double outside = outside(2 + 3, 2 + 3);
        int rows = 2 + 3 + 8;
        double gpu = 0.5 + 0.036;
        assertSeconds(OVERLAPPING.sameLayer(2, 50, 3, 40, 8, 36), outside + 2 * (rows + 2.4 + 1.5));
        assertSeconds(IN_TURN.sameLayer(2, 50, 3, 40, 8, 36), outside + 2 * (rows + gpu + 2.4 + 1.5));
    }

    @ParameterizedTest
    @CsvSource({
        "100, 4, true, 4 + 0.25 is more than 2 + 1.5",
        "100, 2, false, 2 + 0.25 is less than 2 + 1.5",
        "120, 3, false, 3.6 + 0.25 is less than 2.4 + 1.5",
        "130, 3, true, 3.9 + 0.25 is more than 2.6 + 1.5"
    })
    void aTokenOfTheMeanContextHidesBesideDecodes(int context, int decodes, boolean hides, String why) {
        for (int i = 0; i < decodes; i++) {
            gpu(0, context);
        }
        assertThat(OVERLAPPING.hidesOneBesideDecodes(zero())).as(why).isEqualTo(hides);
    }

    /** Each sub-batch has a decode of the GPU and a host token. */
    private void twoSubBatches() {
        gpu(0, 20);
        host(0, 40);
        gpu(1, 30);
        host(1, 60);
    }

    @Test
    void aPipelineHasBothSubBatches() {
        twoSubBatches();
        double second = 2 + 0.2 + 0.3;
        // in the last layer, the attention of sub-batch 0 and the projections of its two outputs hide 0.2 + 2
        double last = 1.2 + 1.5 - 0.2 - 2;
        assertSeconds(OVERLAPPING.pipeline(zero(), one()), outside(4, 4) + 2 * (2 + second + 2 * 0.25) + last);
        assertSeconds(OVERLAPPING.ofLayers().pipeline(zero(), one()), 2 * (second + 1.2 + 1.5)); // of sub-batch 1
        assertSeconds(IN_TURN.pipeline(zero(), one()), outside(4, 4) + 2 * (2 + second + 2 * 0.25 + 0.8 + 1.2));
        assertSeconds(OVERLAPPING.slackInZero(zero(), one()), second + 2 * 0.25 - 1.5 - 0.8);
        assertSeconds(OVERLAPPING.slackInOne(zero(), one()), 2 + 2 * 0.25 - 1.5 - 1.2);
    }

    @ParameterizedTest
    @CsvSource({"0, true", "1, true", "0, false", "1, false"})
    void onePredictsAHostTokenAsIfItHadBeenAdded(int batch, boolean overlaps) {
        StepPredictor predictor = overlaps ? OVERLAPPING : IN_TURN;
        twoSubBatches();
        double predicted = predictor.pipelineWith(zero(), one(), batch, 100);
        host(batch, 100);
        assertSeconds(predicted, predictor.pipeline(zero(), one()));
    }

    @Test
    void anEstimateOfHostTokensInSubBatchOne() {
        double second = 3 + 0.5 + 0.036;
        double gpu = 10 + second + 2 * 0.25;
        double last = 1.5 - 0.5 - 0.036 - 2;
        assertSeconds(OVERLAPPING.pipelined(2, 50, 3, 40, 8, 36), outside(5, 5) + 2 * gpu + 2.4 + last);
        assertSeconds(OVERLAPPING.pipelined(2, 50, 3, 200, 8, 36), outside(5, 5) + 2 * gpu + 12 + last);
        assertSeconds(OVERLAPPING.pipelined(2, 50, 3, 500, 8, 36), outside(5, 5) + 2 * (second + 30 + 1.5));
        assertSeconds(IN_TURN.pipelined(2, 50, 3, 40, 8, 36), outside(5, 5) + 2 * (gpu + 2.4));
    }

    @Test
    void anEstimateOfHostTokensInBothSubBatches() {
        // without host tokens in sub-batch 0 the stages take 10 and 3.536: 4 of 6 tokens hide behind the first
        double first = 10 + 2;
        double gpu = first + 4 + 0.5 + 0.036 + 2 * 0.25;
        double last = 8 + 1.5 - 0.5 - 0.036 - 4;
        assertSeconds(OVERLAPPING.pipelinedInBoth(2, 50, 6, 100, 8, 36), outside(8, 8) + 2 * gpu + last);
        assertSeconds(IN_TURN.pipelinedInBoth(2, 50, 6, 100, 8, 36), outside(8, 8) + 2 * (gpu + 4 + 8));
    }

    @Test
    void aStepComputesAllSlotsWhereTheTiersOverlap() {
        assertSeconds(OVERLAPPING.async(2, 50, 5, 200, 8, 0, 0), 1.25 * (outside(10, 10) + 2 * (10 + 0.5)));
        assertSeconds(OVERLAPPING.async(2, 50, 5, 200, 2, 0, 0), 1.25 * (outside(5, 5) + 2 * (5 + 0.5)));
        assertSeconds(OVERLAPPING.async(2, 50, 4, 200, 1, 0, 0), 1.25 * (outside(4, 4) + 2 * (4 + 0.5)));
        assertSeconds(IN_TURN.async(2, 50, 5, 200, 8, 0, 0), outside(5, 5) + 2 * (5 + 0.5) + 4);
    }

    @Test
    void aStepHasTheTokensInFlightAndThoseAdmitted() {
        gpu(0, 20);
        draft.shape(Shape.ASYNC);
        draft.slots(8);
        double gpuOnly = outside(1, 1) + 2 * (1 + 0.2);
        assertSeconds(OVERLAPPING.of(draft), 1.25 * gpuOnly); // no token, no slots
        scene.inFlight(40);
        draft.admit(scene.host(50));
        assertSeconds(OVERLAPPING.of(draft), 1.25 * (outside(9, 9) + 2 * (9 + 0.2)));
        assertSeconds(IN_TURN.of(draft), outside(2, 2) + 2 * (2 + 0.2) + 1.8);
        draft.cohort();
        assertSeconds(OVERLAPPING.of(draft), 1.25 * (gpuOnly + 2)); // both at one of the layers
        assertSeconds(IN_TURN.of(draft), gpuOnly + 2 + 1.8);
    }

    @Test
    void swapsTakeTheTimeOfTheKvThatIsHeld() {
        StepPredictor predictor = new StepPredictor(COST, true, 3);
        gpu(0, 20);
        double without = OVERLAPPING.of(draft);
        assertSeconds(predictor.of(draft), without);
        draft.bringIn(scene.host(8));
        assertSeconds(predictor.of(draft), without + 3 * 7);
        draft.evict(scene.gpu(12), true);
        assertSeconds(predictor.of(draft), without + 3 * (7 + 11));
        assertSeconds(OVERLAPPING.of(draft), without);
        StepDraft out = new StepDraft(scene.state, BUDGET);
        out.evict(scene.gpu(12), true);
        assertSeconds(predictor.of(out), OVERLAPPING.of(out) + 3 * 11);
    }

    @Test
    void aTokenOfGpuOnlyHasItsPartOfAStep() {
        assertSeconds(OVERLAPPING.secondsPerToken(zero()), outside(1, 1) + 2);
        gpu(0, 20);
        gpu(0, 30);
        assertSeconds(OVERLAPPING.secondsPerToken(zero()), (outside(2, 2) + 2 * (2 + 0.5)) / 2);
    }

    /** Eight tokens take 16 s in long steps, and 1000 pairs of them 2 s more. */
    @Test
    void aCopyPaysWhereItTakesLessThanTheTokens() {
        StepPredictor predictor = new StepPredictor(COST, true, 2);
        assertThat(predictor.copyPays(7, 8, 0)).isTrue();
        assertThat(predictor.copyPays(8, 8, 0)).isFalse();
        assertThat(predictor.copyPays(8, 8, 1000)).isTrue();
        assertThat(predictor.copyPays(9, 8, 1000)).isFalse();
    }

    @Test
    void theWorkOfAStepIsThatOfBothSubBatches() {
        twoSubBatches();
        draft.start(scene.waiting(8), 8, AttentionSite.GPU_FROM_GPU); // 36 pairs
        scene.inFlight(40);
        scene.inFlight(40);
        draft.admit(scene.host(50));
        StepPredictor.Work work = OVERLAPPING.work(draft);
        assertSeconds(work.tokens(), 4 + 3 / 2.0);
        assertSeconds(work.promptSeconds(), 2 * (8 + 0.036));
        assertSeconds(work.normalisedWork(4), 2 * (8 + 0.036) + 4 * 5.5);
    }

    /** Up to ten rows take 10 s, twenty take 100 s, and 512 in between 588 s. */
    @Test
    void gpuOnlyHasPromptsBesideDecodesUnlessLongStepsAreFewerSeconds() {
        String stairs = TEXT.replace("linear 1 1\n", "linear 1 10\nlinear 10 10\nlinear 20 100\n");
        CostModel cost = new CostModel(Profile.parse(stairs, "the test"));
        StepPredictor predictor = new StepPredictor(cost, true, 0);
        twoSubBatches();
        Load reference = new StepDraft(scene.state, BUDGET).load(0);
        assertSeconds(
                predictor.gpuOnlySeconds(draft, 0, reference, PiggybackedPrefill.NONE), 4 * (outside(1, 1) + 2 * 10));
        draft.start(scene.waiting(8), 8, AttentionSite.GPU_FROM_GPU); // 36 pairs, in four steps of one decode
        assertSeconds(
                predictor.gpuOnlySeconds(draft, 0, reference, PiggybackedPrefill.NONE),
                4 * (outside(1, 1) + 2 * (10 + 0.009)));
        assertSeconds(
                predictor.gpuOnlySeconds(draft, 2, reference, PiggybackedPrefill.NONE),
                2 * (outside(1, 1) + 2 * (10 + 0.018)));
        draft.start(scene.waiting(72), 72, AttentionSite.GPU_FROM_GPU); // 2628 pairs more, in steps of 21 rows
        double prompts = 2 * (cost.linear(512) / 512 * 80 + 2.664);
        assertSeconds(
                predictor.gpuOnlySeconds(draft, 0, reference, PiggybackedPrefill.NONE),
                prompts + 4 * (outside(1, 1) + 2 * 10));
        assertSeconds(predictor.gpuOnlySeconds(draft, 4, reference, PiggybackedPrefill.NONE), prompts);
    }

    /**
     * Up to 16 rows take 10 s, and 20 take 100 s. Two decodes come with 4.5 prompt tokens each, so gpu-only has most
     * throughput with eight rows: one decode and seven prompt tokens, which have 252 of the 2,628 pairs of 72.
     */
    @Test
    void gpuOnlyHasPromptsInItsStepsOfMostThroughput() {
        String stairs = TEXT.replace("linear 1 1\n", "linear 1 10\nlinear 16 10\nlinear 20 100\n");
        StepPredictor predictor = new StepPredictor(new CostModel(Profile.parse(stairs, "the test")), true, 0);
        gpu(0, 20);
        gpu(0, 30);
        Load reference = StepPredictor.withoutCpuRows(draft, 0);
        scene.limit(88);
        draft.start(scene.waiting(72), 72, AttentionSite.GPU_FROM_GPU);
        PiggybackedPrefill piggybacking = CheapRows.upTo(16);
        assertThat(piggybacking.rows(2, SpeedupEstimate.promptTokensPerOutput(scene.state)))
                .isEqualTo(8);
        double decodes = outside(2, 2) + 2 * (10 + 0.5);
        double added = outside(1, 1) + 2 * (10 + 0.25 + 0.252) - decodes / 2; // a token takes half of a step
        assertSeconds(predictor.gpuOnlySeconds(draft, 0, reference, piggybacking), decodes + 72 * added / 7);
        assertThat(predictor.gpuOnlySeconds(draft, 0, reference, PiggybackedPrefill.NONE))
                .isGreaterThan(decodes + 72 * added / 7);
    }

    /** While one of two sequences is unfinished, a decoded token takes a whole step, but prompts cost as much. */
    @Test
    void promptsOfGpuOnlyCostAsMuchWhileFewSequencesDecode() {
        String stairs = TEXT.replace("linear 1 1\n", "linear 1 10\nlinear 16 10\nlinear 20 100\n");
        StepPredictor predictor = new StepPredictor(new CostModel(Profile.parse(stairs, "the test")), true, 0);
        gpu(0, 25);
        scene.gpu(25);
        Load reference = StepPredictor.withoutCpuRows(draft, 0);
        scene.limit(88);
        draft.start(scene.waiting(72), 72, AttentionSite.GPU_FROM_GPU);
        double decode = outside(1, 1) + 2 * (10 + 0.25);
        double added = outside(1, 1) + 2 * (10 + 0.25 + 0.252) - (outside(2, 2) + 2 * (10 + 0.5)) / 2;
        assertSeconds(predictor.gpuOnlySeconds(draft, 0, reference, CheapRows.upTo(16)), decode + 72 * added / 7);
    }

    @Test
    void promptsAddWhatAStepOfDecodesAloneWouldNotTake() {
        draft.add(0, scene.gpu(9), 1, AttentionSite.GPU_FROM_GPU);
        assertSeconds(OVERLAPPING.addedByPrompts(zero()), 0);
        draft.start(scene.waiting(8), 8, AttentionSite.GPU_FROM_GPU); // 36 pairs, and an output
        assertSeconds(OVERLAPPING.addedByPrompts(zero()), 0.5 * 8 + 3 + 2 * (8 + 0.036));
    }

    @Test
    void aStepOfPromptsAloneIsAddedWholly() {
        draft.start(scene.waiting(8), 8, AttentionSite.GPU_FROM_GPU);
        assertSeconds(OVERLAPPING.addedByPrompts(zero()), outside(8, 1) + 2 * (8 + 0.036));
    }
}
