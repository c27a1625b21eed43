package dev.tandem.engine.strategy;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.tandem.engine.cost.CostModel;
import dev.tandem.engine.request.LatencyTargets;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.GpuKvLimit;
import dev.tandem.engine.schedule.Scene;
import dev.tandem.engine.schedule.StepDraft;
import dev.tandem.engine.step.AttentionSite;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Terms of a draft of two sub-batches; {@link TestProfile} has the times. */
class PipelineTest {
    private static final Budget BUDGET = new Budget(400, 120, 400);
    private static final Budget LONG_PROMPTS = new Budget(2100, 20, 2100);

    private static Pipeline pipeline(Budget budget, Deviations deviations, long targetSeconds) {
        return pipeline(budget, TestProfile.model(), deviations, targetSeconds);
    }

    private static Pipeline pipeline(Budget budget, CostModel cost, Deviations deviations, long targetSeconds) {
        return new Pipeline(
                budget,
                new StepPredictor(cost, true, 0),
                new TierRules(new LatencyTargets(0, targetSeconds * 1_000_000_000), 0, 0),
                deviations,
                true);
    }

    /** Two GPU decodes of 100 tokens on average, one in each sub-batch. */
    @ParameterizedTest
    @CsvSource({"139, 0.61", "140, 0", "200, 0", "300, 0"})
    void hostTokensOfShortContextCountAsTheirPartOfTheGpus(long cpuTokens, double uncounted) {
        Scene scene = new Scene(100, 100, BUDGET).limit(200);
        StepDraft draft = new StepDraft(scene.state, BUDGET);
        draft.add(0, scene.gpu(120), 1, AttentionSite.GPU_FROM_GPU);
        draft.add(1, scene.gpu(80), 1, AttentionSite.GPU_FROM_GPU);
        Deviations counts = Deviations.of(Fidelity.TANDEM).with(Deviation.STEP_6_COUNTS_CONTEXT, true);
        assertThat(pipeline(BUDGET, counts, 0).uncounted(draft, 2, cpuTokens)).isCloseTo(uncounted, within(1e-9));
        Deviations printed = counts.with(Deviation.STEP_6_COUNTS_CONTEXT, false);
        assertThat(pipeline(BUDGET, printed, 0).uncounted(draft, 2, cpuTokens)).isZero();
    }

    @Test
    void withoutGpuDecodesHostTokensCountInFull() {
        StepDraft empty = new StepDraft(new Scene(100, 100, BUDGET).state, BUDGET);
        assertThat(pipeline(BUDGET, Deviations.of(Fidelity.TANDEM), 0).uncounted(empty, 2, 2))
                .isZero();
    }

    /** GEMMs of 1024 rows take 2 x 102.4 s; half of a target of 410 s is 205 s. A step has 512 rows in any case. */
    @ParameterizedTest
    @CsvSource({"0, 2048", "410, 1024", "409, 512", "100, 512"})
    void promptsTakeHalfOfTheTargetPerToken(long targetSeconds, int rows) {
        Budget budget = new Budget(2048, 100, 2048);
        Scene scene = new Scene(3000, 100, budget).limit(5000);
        scene.waiting(4000);
        Deviations deviations = Deviations.of(Fidelity.TANDEM).with(Deviation.WHOLE_TILES, false);
        StepDraft draft = pipeline(budget, deviations, targetSeconds).withoutHostTokens(scene.state);
        assertThat(draft.totalRows()).isEqualTo(rows);
    }

    /**
     * A prompt of 1000 tokens and up to 1000 of output waits for a tier. A host token of 1.3 times its mean context
     * takes the CPU 2 x 7.8 s, and one batch with it 2 x (10 + 10) s beside GPU decodes of 1000 tokens in all.
     *
     * @param stepSeconds that the steps took so far
     * @return whether it starts on the host with a target of so many seconds per token
     */
    private static boolean startsOnHost(boolean sameLayer, int gpuDecodes, double stepSeconds, long targetSeconds) {
        Budget budget = new Budget(1100, 20, 1100);
        Scene scene = new Scene(256, 3000, budget).limit(2000);
        for (int i = 0; i < gpuDecodes; i++) {
            scene.gpu(1000 / gpuDecodes);
        }
        scene.waiting(1000);
        Deviations deviations = Deviations.of(Fidelity.TANDEM).with(Deviation.SAME_LAYER, sameLayer);
        Pipeline pipeline = pipeline(budget, TestProfile.withCpu(25), deviations, targetSeconds);
        pipeline.completed(pipeline.withoutHostTokens(scene.state), stepSeconds);
        return pipeline.withoutHostTokens(scene.state).load(0).prefillOffloadTokens() > 0;
    }

    /**
     * Five host tokens of 1538 on average, times 1.3, take the CPU 2 x 40 s: one batch 2 x (10 + 40) s, 0.9 of 111. Two
     * sub-batches hide most of it and take 84 s, 0.97 of 86.6, or as many times more as they were measured to.
     */
    @ParameterizedTest
    @CsvSource({"86, 1, false", "87, 1, true", "90, 1.05, false", "91, 1.05, true"})
    void theTimeOfTwoSubBatchesCountsWhereTheyAreFaster(long targetSeconds, double measured, boolean starts) {
        Scene scene = fourOnTheHost(1000);
        CostModel cost = TestProfile.withCpu(25);
        for (int i = 0; i < 1000; i++) {
            cost.observeSubBatches(1, measured);
        }
        Pipeline pipeline = pipeline(LONG_PROMPTS, cost, Deviations.of(Fidelity.TANDEM), targetSeconds);
        StepDraft draft = pipeline.withoutHostTokens(scene.state);
        assertThat(draft.load(0).prefillOffloadTokens() > 0).isEqualTo(starts);
    }

    /** A sequence on the GPU, four on the host, and one that waits. */
    private static Scene fourOnTheHost(int gpuContext) {
        Scene scene = new Scene(256, 3000, LONG_PROMPTS).limit(2026);
        scene.gpu(gpuContext);
        for (int i = 0; i < 4; i++) {
            scene.host(1050);
        }
        scene.waiting(1050);
        return scene;
    }

    /** As above, beside a GPU that holds 500 tokens and will hold 1,000, with 6 of its 256 blocks free. */
    @ParameterizedTest
    @CsvSource({"86, 0, true", "86, 6, false", "87, 6, true"})
    void theKvThatTheGpuWillHoldCounts(long targetSeconds, int freeBlocks, boolean starts) {
        Scene scene = fourOnTheHost(500);
        TierRules rules = new TierRules(new LatencyTargets(0, targetSeconds * 1_000_000_000L), 0, 0);
        Pipeline pipeline = new Pipeline(
                LONG_PROMPTS,
                new StepPredictor(TestProfile.withCpu(25), true, 0),
                rules,
                Deviations.of(Fidelity.TANDEM),
                true);
        StepDraft finds = new StepDraft(scene.state, LONG_PROMPTS);
        finds.noteGpuKvLimit(new GpuKvLimit(freeBlocks, 1000, 5, 1));
        finds.keepGpuBlocksFree(freeBlocks, sequence -> true);
        rules.completed(finds, 0);
        StepDraft draft = pipeline.withoutHostTokens(scene.state);
        assertThat(draft.load(0).prefillOffloadTokens() > 0).isEqualTo(starts);
    }

    @Test
    void theTimeOfOneBatchCountsWhereItPaysThatTheGpuWaits() {
        assertThat(startsOnHost(true, 1, 100, 45))
                .as("40 s are less than 0.9 of 45")
                .isTrue();
        assertThat(startsOnHost(true, 1, 100, 44))
                .as("40 s are more than 0.9 of 44")
                .isFalse();
        assertThat(startsOnHost(true, 1, 10, 44))
                .as("steps of 10 s had fewer host tokens")
                .isFalse();
        assertThat(startsOnHost(false, 1, 100, 50))
                .as("two sub-batches take as long as before")
                .isFalse();
        assertThat(startsOnHost(true, 10, 100, 50))
                .as("15.6 s for one token, and 40 for ten")
                .isFalse();
        assertThat(startsOnHost(true, 10, 100, 112))
                .as("100 s are less than 0.9 of 112")
                .isTrue();
        assertThat(startsOnHost(true, 10, 100, 111))
                .as("100 s are more than 0.9 of 111")
                .isFalse();
    }
}
