package dev.tandem.engine.strategy;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.engine.request.LatencyTargets;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Decision;
import dev.tandem.engine.schedule.Scene;
import org.junit.jupiter.api.Test;

/**
 * When tokens begin to be in flight. A step of decodes takes 2 x (10 + 0.1) s and a token waits for two, 40.4 s; with a
 * prompt of 80 tokens a step takes 2 x 3.24 s more, and a token waits for 53.4 s.
 */
class AsyncOverlapTest {
    private static final Budget BUDGET = new Budget(128, 32, 128);

    private final Scene scene = new Scene(40, 100, BUDGET);

    private static AsyncOverlap overlap(long targetSeconds) {
        return new AsyncOverlap(
                BUDGET,
                new StepPredictor(TestProfile.model(), true, 0),
                new TierRules(new LatencyTargets(0, targetSeconds * 1_000_000_000), 0, 0),
                Deviations.of(Fidelity.TANDEM),
                InFlightLimits.UNLIMITED,
                0);
    }

    private boolean keepsTargetAfterAStep(AsyncOverlap overlap) {
        overlap.completed(overlap.draft(scene.state, new Decision()), 0);
        return overlap.keepsTarget(scene.state);
    }

    @Test
    void tokensWaitUntilPromptsNoLongerMakeStepsLong() {
        scene.gpu(10);
        scene.waiting(80);
        assertThat(keepsTargetAfterAStep(overlap(60))).isFalse(); // 53.4 s are more than 0.8 of 60
        assertThat(keepsTargetAfterAStep(overlap(67))).isTrue();
    }

    @Test
    void inFlightTokensGoOnWhilePromptsMakeStepsLong() {
        scene.gpu(10);
        scene.inFlight(10);
        scene.waiting(80);
        assertThat(keepsTargetAfterAStep(overlap(60))).isTrue();
        assertThat(keepsTargetAfterAStep(overlap(53))).isFalse();
    }

    @Test
    void whereDecodesAloneTakeLongTheWholeTargetIsAllowed() {
        scene.gpu(10);
        assertThat(keepsTargetAfterAStep(overlap(45))).isTrue(); // 40.4 s are more than 0.8 of 45
        assertThat(keepsTargetAfterAStep(overlap(40))).isFalse();
    }

    /** Rows of a step with one token in flight, eight decodes, and 40 waiting prompts that fit the host alone. */
    private static int rows(int outputs) {
        Budget budget = new Budget(4000, 100, 4000);
        Scene scene = new Scene(26, 2000, budget).limit(100 + outputs);
        for (int i = 0; i < 8; i++) {
            scene.gpu(8);
        }
        scene.inFlight(8);
        for (int i = 0; i < 40; i++) {
            scene.waiting(100);
        }
        StepPredictor predictor = new StepPredictor(TestProfile.withCpu(1000), true, 0);
        Deviations deviations = Deviations.of(Fidelity.TANDEM);
        InFlightLimits limits = new InFlightLimits(64, 64, true);
        AsyncOverlap overlap = new AsyncOverlap(budget, predictor, TierRules.neutral(), deviations, limits, 64);
        return overlap.draft(scene.state, new Decision()).load(0).rows();
    }

    @Test
    void promptsForTheHostArePiggybackedWhereAllCanBe() {
        assertThat(rows(100)).as("one prompt token per output token").isEqualTo(64 - 8);
        assertThat(rows(10)).as("ten prompt tokens per output token").isGreaterThan(64);
    }
}
