package dev.tandem.engine.strategy;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.tandem.engine.cost.CostModel;
import dev.tandem.engine.request.LatencyTargets;
import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Decision;
import dev.tandem.engine.schedule.GpuKvLimit;
import dev.tandem.engine.schedule.Policy;
import dev.tandem.engine.schedule.Preemption;
import dev.tandem.engine.schedule.Scene;
import dev.tandem.engine.schedule.Shape;
import dev.tandem.engine.schedule.StepDraft;
import dev.tandem.engine.strategy.select.Strategy;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Steps with same-layer tokens; {@link TestProfile} has the times. */
class SameLayerTest {
    private static final Budget BUDGET = new Budget(400, 120, 400);

    /**
     * 60 s per token: two sub-batches take at least 60 s beside T_ga = 10, more than 0.97 of it, and one batch 40 s.
     */
    private static TierRules tooShortForTwoSubBatches() {
        return new TierRules(new LatencyTargets(0, 60_000_000_000L), 0, 0);
    }

    private static Policy policy(CostModel cost, boolean sameLayer) {
        return policy(cost, Deviations.of(Fidelity.TANDEM).with(Deviation.SAME_LAYER, sameLayer));
    }

    private static Policy policy(CostModel cost, Deviations deviations) {
        return Strategy.ADAPTIVE_PIPELINING.policy(
                Strategy.Options.builder(BUDGET).deviations(deviations).build(), cost);
    }

    /** The same-layer tokens that would be chosen if each counted as one request, as step 6 does as printed. */
    private static List<Sequence> chosen(Scene scene, CostModel cost) {
        return chosen(scene, cost, TierRules.neutral());
    }

    private static List<Sequence> chosen(Scene scene, CostModel cost, TierRules rules) {
        return choice(scene, cost, rules).map(SameLayer.Choice::tokens).orElse(List.of());
    }

    private static Optional<SameLayer.Choice> choice(Scene scene, CostModel cost, TierRules rules) {
        Pipeline pipeline = pipeline(
                BUDGET, cost, rules, Deviations.of(Fidelity.TANDEM).with(Deviation.STEP_6_COUNTS_CONTEXT, false));
        return new SameLayer(pipeline).choose(pipeline.draft(scene.state));
    }

    private static Pipeline pipeline(CostModel cost) {
        return pipeline(cost, Deviations.of(Fidelity.TANDEM));
    }

    private static Pipeline pipeline(CostModel cost, Deviations deviations) {
        return pipeline(BUDGET, cost, TierRules.neutral(), deviations);
    }

    private static Pipeline pipeline(Budget budget, CostModel cost, TierRules rules, Deviations deviations) {
        return new Pipeline(budget, new StepPredictor(cost, true, 0), rules, deviations, true);
    }

    private static StepDraft draft(Scene scene, CostModel cost) {
        return policy(cost, true).draft(scene.state, new Decision());
    }

    /** A scene whose GPU pool has room for this many tokens, and three blocks for growth. */
    private static Scene ofTokens(int gpuTokens) {
        return new Scene((gpuTokens + 3) / 4 + 3, 3000, BUDGET).limit(Math.min(gpuTokens + 12, 1010));
    }

    /** One GPU sequence of a context, whose attention takes a hundredth of it, and host sequences of 40 tokens. */
    private static Scene scene(int gpuContext, int hostSequences) {
        Scene scene = ofTokens(gpuContext);
        scene.gpu(gpuContext);
        for (int i = 0; i < hostSequences; i++) {
            scene.host(40);
        }
        return scene;
    }

    @Test
    void tokensThatHideBehindTheGpusAttentionShareItsBatch() {
        // T_ga = 10 hides two tokens of T_ca = 4 each; in two sub-batches the step would take 30 per layer
        Scene scene = scene(1000, 2);
        Decision why = new Decision();
        StepDraft draft = policy(TestProfile.model(), true).draft(scene.state, why);
        assertThat(Scene.text(draft)).isEqualTo("[r0 r1cpu r2cpu]");
        assertThat(draft.shape()).isEqualTo(Shape.SAME_LAYER);
        assertThat(why.reason()).contains("for 2 host tokens while the GPU attends for its own and waits 0.0 ms");
        StepPredictor predictor = new StepPredictor(TestProfile.model(), true, 0);
        assertThat(predictor.of(draft)).isCloseTo(2 * (10 + 10), within(1e-6));
        assertThat(new StepPredictor(TestProfile.model(), false, 0).of(draft))
                .as("on one set of cores nothing overlaps")
                .isCloseTo(2 * (10 + 10 + 8), within(1e-6));
    }

    @Test
    void aStepThatWaitsTakesAsLongAsTheCpu() {
        Scene scene = scene(1000, 3);
        StepDraft draft = new StepDraft(scene.state, BUDGET);
        AllHost.add(draft, 0, AllHost.decodes(draft));
        draft.shape(Shape.OFFLOAD);
        CostModel cost = TestProfile.withStages(0.5, 2);
        assertThat(new StepPredictor(cost, true, 0).of(draft)).isCloseTo(2 * (10 + 12 + 2), within(1e-6));
    }

    /** 3 tokens in 20 per layer, or 8 in 30: T_l0 hides two and T_l1 + T_ga0 four and more. */
    @ParameterizedTest
    @CsvSource({"false, PIPELINE", "true, SAME_LAYER"})
    void twoSubBatchesWinWhereTheyHideManyMore(boolean countsContext, Shape expected) {
        Policy policy = policy(
                TestProfile.model(),
                Deviations.of(Fidelity.TANDEM).with(Deviation.STEP_6_COUNTS_CONTEXT, countsContext));
        StepDraft draft = policy.draft(scene(1000, 7).state, new Decision());
        assertThat(draft.shape())
                .as("by their context, 40 of the GPU decode's 1000, the 7 count as 0.28 requests and 2 as 0.08")
                .isEqualTo(expected);
    }

    @Test
    void theTripShortensTheWindowAndTheStageLengthensIt() {
        assertThat(chosen(scene(1000, 2), TestProfile.withStages(0, 3))).hasSize(1);
        assertThat(chosen(scene(1000, 2), TestProfile.withStages(1, 3))).hasSize(2);
    }

    @Test
    void aLongTokenDoesNotKeepShorterOnesOut() {
        Scene scene = ofTokens(1000);
        scene.gpu(1000);
        scene.host(120);
        Sequence shorter = scene.host(40);
        assertThat(chosen(scene, TestProfile.model())).containsExactly(shorter);
    }

    /** A host sequence of 40 tokens, the last of which it got at {@code last}. */
    private static Sequence hostSince(Scene scene, long last) {
        Sequence sequence = scene.host(39);
        sequence.advance(1);
        sequence.append(0, last);
        scene.kv.grow(sequence, sequence.length());
        return sequence;
    }

    @Test
    void theTokenThatHasWaitedLongestComesFirst() {
        Scene scene = ofTokens(1000);
        scene.gpu(1000);
        hostSince(scene, 300);
        Sequence longest = hostSince(scene, 100);
        assertThat(chosen(scene, TestProfile.withStages(0, 3))).containsExactly(longest);
    }

    @Test
    void theBatchIsFilledToItsLastRow() {
        Budget budget = new Budget(3, 3, 3);
        Scene scene = scene(1000, 4); // of four tokens in 1.6 s all would hide
        Pipeline pipeline = pipeline(
                budget,
                TestProfile.withCpu(10),
                tooShortForTwoSubBatches(),
                Deviations.of(Fidelity.TANDEM).with(Deviation.STEP_6_COUNTS_CONTEXT, false));
        assertThat(new SameLayer(pipeline).choose(GpuSteps.decodes(scene.state, budget, Preemption.SWAP)))
                .hasValueSatisfying(choice -> assertThat(choice.tokens()).hasSize(2));
    }

    @Test
    void aTokenOfShortContextCountsAsItsPartOfTheGpus() {
        Pipeline pipeline = pipeline(TestProfile.model());
        assertThat(new SameLayer(pipeline).choose(pipeline.withoutHostTokens(scene(1000, 1).state)))
                .hasValueSatisfying(
                        choice -> assertThat(choice.candidate().requests()).isCloseTo(1 + 40 / 1000.0, within(1e-9)));
    }

    @Test
    void withoutAHostBlockForAnyTokenTheStepIsTheGpus() {
        Scene scene = new Scene(4, 10, BUDGET).limit(60);
        scene.gpu(9);
        Sequence full = scene.host(41); // 10 blocks have its 40 tokens, and none is left for the next
        SameLayer sameLayer = new SameLayer(pipeline(TestProfile.model()));
        StepDraft draft = GpuSteps.decodes(scene.state, BUDGET, Preemption.SWAP);
        Decision.Candidate candidate = new Decision.Candidate(Shape.SAME_LAYER, 2, 1, 20, 2);
        sameLayer.apply(draft, new SameLayer.Choice(List.of(full), candidate, 0));
        assertThat(Scene.text(draft)).isEqualTo("[r0]");
        assertThat(draft.shape()).isEqualTo(Shape.GPU_ONLY);
    }

    @Test
    void aTokenThatLowersTheRateIsLeftOut() {
        // the stage adds 6 to the 20 of a layer: worth a second token, and not an eleventh
        CostModel cost = TestProfile.withStages(6, 6);
        Scene scene = ofTokens(1000);
        scene.gpu(1000);
        scene.host(40);
        assertThat(chosen(scene, cost)).hasSize(1);
        Scene many = ofTokens(1000);
        for (int i = 0; i < 10; i++) {
            many.gpu(100);
        }
        many.host(40);
        assertThat(chosen(many, cost)).isEmpty();
    }

    /**
     * Beside T_ga = 10 two tokens of T_ca = 4 hide; the third waits for 2 in each of two layers. Two sub-batches take
     * 60 s, more than 0.97 of the target.
     */
    @Test
    void theGpuWaitsWhileThatRaisesTheRate() {
        CostModel cost = TestProfile.withCpu(25);
        Scene one = ofTokens(1000);
        one.gpu(1000);
        Scene ten = ofTokens(1000);
        for (int i = 0; i < 10; i++) {
            ten.gpu(100);
        }
        for (int i = 0; i < 4; i++) {
            one.host(1000);
            ten.host(1000);
        }
        assertThat(chosen(one, cost, tooShortForTwoSubBatches()))
                .as("3 requests in 40, 4 in 44, 5 in 52")
                .hasSize(4);
        assertThat(choice(one, cost, tooShortForTwoSubBatches()).orElseThrow().waits())
                .as("four tokens take 16, and T_ga is 10, in each of two layers")
                .isCloseTo(12, within(1e-9));
        assertThat(chosen(ten, cost, tooShortForTwoSubBatches()))
                .as("12 requests in 40, 13 in 44")
                .hasSize(2);
    }

    /** 10 requests in 40 need 4 each; the first token's 12.5 exceed T_ga = 10 in each of two layers by 5 in all. */
    @Test
    void aTokenThatIsNotWorthItsWaitDoesNotKeepOthersOut() {
        Scene scene = ofTokens(1000);
        for (int i = 0; i < 10; i++) {
            scene.gpu(100);
        }
        scene.host(1000);
        Sequence shorter = scene.host(400);
        assertThat(chosen(scene, TestProfile.withCpu(8))).containsExactly(shorter);
    }

    /**
     * Steps have taken 100 s, more than 0.9 of the target. One batch with both host tokens takes 40 s, so the prompt
     * may enter the host.
     */
    @ParameterizedTest
    @CsvSource({"true, true", "false, false"})
    void theHostIsOpenWhileOneBatchKeepsTheTarget(boolean sameLayer, boolean enters) {
        Scene scene = ofTokens(1000);
        scene.gpu(1000);
        scene.host(40);
        scene.waiting(40);
        Policy policy = Strategy.ADAPTIVE_PIPELINING.policy(
                Strategy.Options.builder(BUDGET)
                        .rules(new TierRules(new LatencyTargets(0, 100_000_000_000L), 0, 0))
                        .deviations(Deviations.of(Fidelity.TANDEM).with(Deviation.SAME_LAYER, sameLayer))
                        .build(),
                TestProfile.withCpu(25));
        policy.completed(new StepDraft(scene.state, BUDGET), 100);
        assertThat(Scene.text(policy.draft(scene.state, new Decision())).contains("+40host"))
                .isEqualTo(enters);
    }

    /** Where the window holds no token, drafts are those of a build without same-layer tokens. */
    @Test
    void aWindowThatHoldsNothingChangesNothing() {
        for (int hosts = 0; hosts < 12; hosts++) {
            for (int context : new int[] {4, 40, 200, 340}) {
                Scene scene = scene(context, hosts);
                scene.waiting(30);
                assertThat(scene.draft(policy(TestProfile.model(), true)))
                        .as("%d host tokens beside a context of %d", hosts, context)
                        .isEqualTo(scene.draft(policy(TestProfile.model(), false)));
            }
        }
    }

    @Test
    void blocksAreConserved() {
        Scene scene = scene(1000, 2);
        for (int step = 0; step < 8; step++) {
            StepDraft draft = draft(scene, TestProfile.model());
            assertThat(draft.shape()).isEqualTo(Shape.SAME_LAYER);
            scene.complete(scene.committer.commit(draft));
        }
    }

    /** The host that would do most decides between one batch and two, and how far prompts fill it. */
    @Test
    void theBestHostDependsOnTheRequestsThatWait() {
        Pipeline slow = pipeline(TestProfile.model());
        Pipeline fast = pipeline(TestProfile.withCpu(25));
        Scene few = scene(1000, 1);
        assertThat(SameLayer.best(GpuSteps.decodes(few.state, BUDGET, Preemption.SWAP), slow))
                .as("a token of the GPU's context takes 100 and hides nowhere")
                .isEmpty();
        assertThat(SameLayer.best(GpuSteps.decodes(few.state, BUDGET, Preemption.SWAP), fast))
                .as("2 tokens in 20, and in two sub-batches in 30")
                .hasValue(new SameLayer.BestHost(1, true));
        Scene many = scene(1000, 1);
        for (int i = 0; i < 6; i++) {
            many.waiting(40);
        }
        assertThat(SameLayer.best(GpuSteps.decodes(many.state, BUDGET, Preemption.SWAP), fast))
                .as("3 in 20, or 8 in 30, the CPU's time for 7")
                .hasValue(new SameLayer.BestHost(7, false));
    }

    @Test
    void oneBatchIsPreferredWhereTwoAreTooSlowOrNeitherGains() {
        Scene none = scene(1000, 0);
        assertThat(SameLayer.best(
                        GpuSteps.decodes(none.state, BUDGET, Preemption.SWAP), pipeline(TestProfile.withCpu(25))))
                .as("no sequence for the host")
                .hasValue(new SameLayer.BestHost(0, true));
        // one batch takes 2 x 20 s per token, and two sub-batches 2 x 30 s
        TierRules rules = new TierRules(new LatencyTargets(0, 50_000_000_000L), 0, 0);
        Scene one = scene(1000, 1);
        assertThat(SameLayer.best(
                        GpuSteps.decodes(one.state, BUDGET, Preemption.SWAP),
                        pipeline(BUDGET, TestProfile.withCpu(25), rules, Deviations.of(Fidelity.TANDEM))))
                .hasValue(new SameLayer.BestHost(1, true));
    }

    /** One batch does three tokens for one of GPU-only, a gain of 2; by weight that is 1. */
    @Test
    void twoSubBatchesArePreferredWhereTheGpuHoldsLessKvForThem() {
        TierRules rules = new TierRules(new LatencyTargets(0, 50_000_000_000L), 0, 0);
        Pipeline pipeline = pipeline(BUDGET, TestProfile.withCpu(25), rules, Deviations.of(Fidelity.TANDEM));
        Scene scene = scene(1000, 1);
        scene.waiting(40);
        StepDraft decodes = GpuSteps.decodes(scene.state, BUDGET, Preemption.SWAP);
        assertThat(SameLayer.best(decodes, pipeline).orElseThrow().oneBatch())
                .as("two take too long beside the GPU's KV")
                .isTrue();
        StepDraft finds = new StepDraft(scene.state, BUDGET);
        finds.noteGpuKvLimit(new GpuKvLimit(10, 500, 5, 1.1));
        rules.completed(finds, 0);
        assertThat(SameLayer.best(decodes, pipeline).orElseThrow().oneBatch())
                .as("the step does not keep blocks free")
                .isTrue();
        decodes.keepGpuBlocksFree(10, sequence -> true);
        assertThat(SameLayer.best(decodes, pipeline)).hasValue(new SameLayer.BestHost(5, false));
        decodes.noteGpuKvLimit(GpuKvLimit.NONE);
        assertThat(SameLayer.best(decodes, pipeline).orElseThrow().oneBatch())
                .as("the step has found none")
                .isTrue();
    }

    /**
     * Two sub-batches take 60 s, 0.97 of the target and less; with a host token that takes longer, one batch follows.
     */
    @Test
    void oneBatchIsPreferredOnceTwoMissTheTarget() {
        TierRules rules = new TierRules(new LatencyTargets(0, 66_000_000_000L), 0, 0, 1);
        Scene scene = new Scene(256, 3000, BUDGET).limit(1010);
        scene.gpu(1000);
        Sequence late = scene.host(1000);
        for (int i = 0; i < 9; i++) {
            scene.host(1000);
        }
        Pipeline pipeline = pipeline(BUDGET, TestProfile.withCpu(25), rules, Deviations.of(Fidelity.TANDEM));
        StepDraft decodes = GpuSteps.decodes(scene.state, BUDGET, Preemption.SWAP);
        assertThat(SameLayer.best(decodes, pipeline).orElseThrow().oneBatch())
                .as("two")
                .isFalse();
        for (int i = 0; i < 4; i++) {
            late.append(0, 0);
        }
        scene.committer.now(300_000_000_000L);
        int steps = 0;
        for (; !SameLayer.best(decodes, pipeline).orElseThrow().oneBatch(); steps++) {
            assertThat(steps).as("steps until one batch").isLessThan(100);
            rules.completed(new StepDraft(scene.state, BUDGET), 0);
        }
        assertThat(steps).as("a late measurement").isPositive();
    }

    @Test
    void theEstimateKnowsThem() {
        Scene scene = scene(1000, 9);
        StepDraft gpuOnly = new GpuOnly(BUDGET, Preemption.SWAP).draft(scene.state, new Decision());
        StepPredictor predictor = new StepPredictor(TestProfile.withCpu(25), true, 0);
        // a host token is expected to have the GPU's 1,000 tokens of context, so 9 of them take 36 and 2 would hide
        SpeedupEstimate.Estimate estimate =
                new SpeedupEstimate(predictor, SpeedupEstimate.Kind.SAME_LAYER, 0).of(gpuOnly);
        assertThat(estimate.hostTokens()).isEqualTo(9);
        assertThat(estimate.gain()).as("10 in 46, 1 in 20").isCloseTo(10.0 / 46 * 20 - 1, within(1e-6));
    }

    /**
     * Ten GPU decodes take 40 s. Of host tokens with their mean context six hide, and with a seventh the GPU waits for
     * 1.5 s: 16 tokens in 40, or 17 in 41.5, which is 4 % of gpu-only's 10 in 40 more.
     */
    @Test
    void theEstimateLeavesOutAWaitOfLittleGain() {
        Scene scene = ofTokens(1000);
        for (int i = 0; i < 10; i++) {
            scene.gpu(100);
        }
        for (int i = 0; i < 12; i++) {
            scene.host(100);
        }
        StepDraft gpuOnly = new GpuOnly(BUDGET, Preemption.SWAP).draft(scene.state, new Decision());
        StepPredictor predictor = new StepPredictor(TestProfile.withCpu(6.5), true, 0);
        SpeedupEstimate.Estimate estimate =
                new SpeedupEstimate(predictor, SpeedupEstimate.Kind.SAME_LAYER, 0).of(gpuOnly);
        assertThat(estimate.hostTokens()).isEqualTo(6);
        assertThat(estimate.gain()).isCloseTo(0.6, within(1e-6));
    }
}
