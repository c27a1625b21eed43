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
}
