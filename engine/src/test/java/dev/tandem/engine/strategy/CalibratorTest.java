package dev.tandem.engine.strategy;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.tandem.engine.cost.CostModel;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Decision;
import dev.tandem.engine.schedule.Scene;
import dev.tandem.engine.schedule.Shape;
import dev.tandem.engine.schedule.StepDraft;
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
