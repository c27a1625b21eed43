package dev.tandem.engine.strategy;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Decision;
import dev.tandem.engine.schedule.Preemption;
import dev.tandem.engine.schedule.Scene;
import dev.tandem.engine.schedule.StepDraft;
import org.junit.jupiter.api.Test;

/**
 * What a full host would bring beside 90 rows of 10 tokens on the GPU: T_l = 10 up to 100 rows and a tenth a row
 * beyond, T_ga = 9.
 */
class SpeedupEstimateTest {
    private static final Budget BUDGET = new Budget(400, 300, 400);
    private static final int GPU_ROWS = 90;

    private final Scene scene = new Scene(400, 400, BUDGET).limit(60);

    private SpeedupEstimate.Outlook outlook(SpeedupEstimate.Kind kind) {
        for (int i = 0; i < GPU_ROWS; i++) {
            scene.gpu(10);
        }
        StepDraft plain = new GpuOnly(BUDGET, Preemption.SWAP).draft(scene.state, new Decision());
        return new SpeedupEstimate(new StepPredictor(TestProfile.model(), true, 0), kind).of(plain);
    }

    /** Requests put out one token each. */
    private void endMany() {
        for (int i = 0; i < 600; i++) {
            scene.committer.remove(scene.gpu(2));
        }
    }

    @Test
    void aSecondPassHidesLittleBesideDecodesAlone() {
        // 90 in 10 + 9, or 90 + 10 in 10 + 10 + 9, and no more than 10 hide
        for (int i = 0; i < 120; i++) {
            scene.host(10);
        }
        assertThat(outlook(SpeedupEstimate.Kind.TWO_PASSES_WITH_PROMPTS)).isEqualTo(new SpeedupEstimate.Outlook(0, 0));
    }

    @Test
    void besidePromptsItHidesMore() {
        // with each token come 4 rows of a prompt, which attend to 8 tokens: 90 in 45 + 9 + 0.72. With 72 on the host
        // 648 rows of prompts:
        // T_l0 = 73.8 hides T_ca1 = 72, and 162 take 73.8 + 10 + 9 + 1.296; 81, the next number that is tried, do not
        // hide
        endMany();
        for (int i = 0; i < 120; i++) {
            scene.waiting(4);
        }
        SpeedupEstimate.Outlook outlook = outlook(SpeedupEstimate.Kind.TWO_PASSES_WITH_PROMPTS);
        assertThat(outlook.rows()).isEqualTo(72);
        assertThat(outlook.gain()).isCloseTo(162 / 94.096 / (90 / 54.72) - 1, within(0.002));
    }

    @Test
    void promptsOfStepsWithoutGpuRowsAreNotPromised() {
        endMany();
        for (int i = 0; i < 120; i++) {
            scene.waiting(4);
        }
        assertThat(outlook(SpeedupEstimate.Kind.TWO_PASSES)).isEqualTo(new SpeedupEstimate.Outlook(0, 0));
    }
}
