package dev.tandem.engine.strategy;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.tandem.engine.cost.CostModel;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Decision;
import dev.tandem.engine.schedule.Scene;
import dev.tandem.engine.schedule.Shape;
import dev.tandem.engine.schedule.StepDraft;
import dev.tandem.engine.step.AttentionSite;
import dev.tandem.engine.step.CpuTasks;
import dev.tandem.engine.step.StepResult;
import dev.tandem.engine.step.StepTimes;
import dev.tandem.engine.strategy.select.Strategy;
import java.util.List;
import org.junit.jupiter.api.Test;

class CalibratorTest {
    private static final Budget BUDGET = new Budget(100, 100, 100);

    private final CostModel cost = TestProfile.model();
    private final Calibrator calibrator = new Calibrator(cost, 0);

    /** A step in which the GPU waits for a host token, and the CPU takes four times as long as predicted. */
    private void slowStage(Scene scene) {
        scene.host(20);
        StepDraft draft = Strategy.SIMPLE_OFFLOAD
                .policy(Strategy.Options.of(BUDGET), cost)
                .draft(scene.state, new Decision());
        assertThat(draft.shape()).isEqualTo(Shape.OFFLOAD);
        long nanos = (long) (4 * cost.layers() * cost.cpuAttention(1, 20) * 1e9);
        // two of three workers have nothing to do, which does not end the step sooner
        StepTimes times = StepTimes.ofHost(nanos / 3, nanos, 0);
        calibrator.observe(draft, new StepResult(0, List.of(), List.of(), List.of(), times), 1, 1);
    }

    @Test
    void stagesThatTakeTheCpuLongerSayNothingOfInFlightTokens() {
        double stage = cost.cpuAttention(1, 20);
        double inFlight = cost.inFlightAttention(1, 20);
        assertThat(inFlight).isEqualTo(stage);
        slowStage(new Scene(10, 100, BUDGET));
        assertThat(cost.cpuAttention(1, 20))
                .as("the first measurement counts no more than others")
                .isCloseTo(1.15 * stage, within(1e-6));
        assertThat(cost.inFlightAttention(1, 20)).isEqualTo(inFlight);
    }

    @Test
    void besideInFlightTokensTheCpusTimeSaysNothingOfStages() {
        Scene scene = new Scene(10, 100, BUDGET);
        scene.inFlight(30);
        double stage = cost.cpuAttention(1, 20);
        slowStage(scene);
        assertThat(cost.cpuAttention(1, 20)).isEqualTo(stage);
    }

    /** A step of two sub-batches that is predicted at 10 s and takes 11. */
    private void slowSubBatches(StepDraft draft) {
        slow(draft, Shape.PIPELINE);
    }

    private void slow(StepDraft draft, Shape shape) {
        draft.shape(shape);
        StepResult result = new StepResult(0, List.of(), List.of(), List.of(), StepTimes.NONE);
        for (int i = 0; i < 1000; i++) {
            calibrator.observe(draft, result, 10, 11);
        }
    }

    /** Two sub-batches: a decode of the GPU, and two host tokens. */
    private static StepDraft subBatches(Scene scene) {
        StepDraft draft = new StepDraft(scene.state, BUDGET);
        draft.add(0, scene.gpu(20), 1, AttentionSite.GPU_FROM_GPU);
        draft.add(0, scene.host(20), 1, AttentionSite.CPU_FROM_HOST);
        draft.add(1, scene.host(20), 1, AttentionSite.CPU_FROM_HOST);
        return draft;
    }

    @Test
    void stepsOfTwoSubBatchesTeachHowMuchLongerTheyTake() {
        assertThat(cost.subBatchesFactor()).isEqualTo(1);
        assertThat(cost.measuredSubBatches()).isFalse();
        slowSubBatches(subBatches(new Scene(10, 100, BUDGET)));
        assertThat(cost.subBatchesFactor()).isCloseTo(1.1, within(1e-3));
        assertThat(cost.measuredSubBatches()).isTrue();
    }

    @Test
    void oneStallIsNotLearnedForLong() {
        StepDraft draft = subBatches(new Scene(10, 100, BUDGET));
        draft.shape(Shape.PIPELINE);
        calibrator.observe(draft, new StepResult(0, List.of(), List.of(), List.of(), StepTimes.NONE), 1, 1000);
        assertThat(cost.subBatchesFactor()).isBetween(1.001, 1.002);
    }

    @Test
    void stepsWithOtherWorkSayNothingOfTwoSubBatches() {
        Scene prompts = new Scene(10, 100, BUDGET);
        StepDraft withPrompt = subBatches(prompts);
        withPrompt.add(0, prompts.waiting(9), 9, AttentionSite.GPU_FROM_GPU);
        slowSubBatches(withPrompt);

        Scene copies = new Scene(10, 100, BUDGET);
        StepDraft swapsIn = subBatches(copies);
        swapsIn.bringIn(copies.host(4));
        slowSubBatches(swapsIn);

        Scene full = new Scene(10, 100, BUDGET);
        StepDraft swapsOut = subBatches(full);
        swapsOut.moveOut(0);
        swapsOut.add(0, full.gpu(4), 1, AttentionSite.GPU_FROM_GPU);
        slowSubBatches(swapsOut);

        Scene flying = new Scene(10, 100, BUDGET);
        flying.inFlight(8);
        slowSubBatches(subBatches(flying));

        for (int batch = 0; batch < 2; batch++) {
            Scene alone = new Scene(10, 100, BUDGET);
            StepDraft oneBatch = new StepDraft(alone.state, BUDGET);
            oneBatch.add(batch, alone.host(20), 1, AttentionSite.CPU_FROM_HOST);
            slowSubBatches(oneBatch);
        }
        slow(subBatches(new Scene(10, 100, BUDGET)), Shape.SAME_LAYER);

        assertThat(cost.measuredSubBatches()).isFalse();
    }

    @Test
    void stepsOfOneBatchForgetHowLongTwoTake() {
        slowSubBatches(subBatches(new Scene(10, 100, BUDGET)));
        StepDraft prompts = subBatches(new Scene(10, 100, BUDGET));
        prompts.add(0, new Scene(10, 100, BUDGET).waiting(9), 9, AttentionSite.GPU_FROM_GPU);
        slowSubBatches(prompts);
        assertThat(cost.subBatchesFactor()).as("prompts are no reason").isCloseTo(1.1, within(1e-3));
        withoutHostTokens(new Scene(10, 100, BUDGET), 1024);
        assertThat(cost.subBatchesFactor()).isCloseTo(1.037, within(1e-3));
    }

    /** A step of async overlap during which the CPU computed tasks of 20 tokens, half as fast as profiled. */
    private void slowTasks(int tasks) {
        StepDraft draft = new StepDraft(new Scene(10, 100, BUDGET).state, BUDGET);
        draft.shape(Shape.ASYNC);
        long nanos = (long) (2 * TestProfile.model().inFlightAttention(100, 100 * 20L) * tasks / 100 * 1e9);
        calibrator.observe(
                draft,
                new StepResult(
                        0,
                        List.of(),
                        List.of(),
                        List.of(),
                        List.of(),
                        StepTimes.ofHost(nanos, 0, 0),
                        new CpuTasks(tasks, 20L * tasks)),
                1,
                1);
    }

    @Test
    void tasksOfInFlightTokensCorrectTheirOwnTime() {
        double stage = cost.cpuAttention(100, 2000);
        double inFlight = cost.inFlightAttention(100, 2000);
        for (int i = 0; i < 200; i++) {
            slowTasks(150);
        }
        assertThat(cost.inFlightAttention(100, 2000) / inFlight).isBetween(1.95, 2.1);
        assertThat(cost.cpuAttention(100, 2000)).isEqualTo(stage);
    }

    @Test
    void fewTasksAreAddedUp() {
        double inFlight = cost.inFlightAttention(100, 2000);
        slowTasks(99);
        assertThat(cost.inFlightAttention(100, 2000)).isEqualTo(inFlight);
        slowTasks(1);
        assertThat(cost.inFlightAttention(100, 2000) / inFlight)
                .as("the first measurement counts no more than others")
                .isBetween(1.01, 1.1);
    }

    @Test
    void theCorrectionOfStagesIsForgottenWhileTheHostIsEmpty() {
        double stage = cost.cpuAttention(1, 20);
        for (int i = 0; i < 200; i++) {
            slowStage(new Scene(10, 100, BUDGET));
        }
        double learned = cost.cpuAttention(1, 20);
        assertThat(learned / stage).isGreaterThan(2);
        Scene scene = new Scene(10, 100, BUDGET);
        scene.host(20);
        withoutHostTokens(scene, 8000);
        assertThat(cost.cpuAttention(1, 20)).as("a sequence waits there").isEqualTo(learned);
        withoutHostTokens(new Scene(10, 100, BUDGET), 8000);
        assertThat(cost.cpuAttention(1, 20) / stage).isBetween(1.0, 1.02);
    }

    private void withoutHostTokens(Scene scene, int steps) {
        StepDraft alone = new StepDraft(scene.state, BUDGET);
        StepResult result = new StepResult(0, List.of(), List.of(), List.of(), StepTimes.NONE);
        for (int i = 0; i < steps; i++) {
            calibrator.observe(alone, result, 1, 1);
        }
    }

    @Test
    void withoutInFlightTokensTheirCorrectionIsForgotten() {
        double inFlight = cost.inFlightAttention(100, 2000);
        for (int i = 0; i < 200; i++) {
            slowTasks(150);
        }
        withoutHostTokens(new Scene(10, 100, BUDGET), 5000);
        assertThat(cost.inFlightAttention(100, 2000) / inFlight).isBetween(1.0, 1.02);
    }
}
