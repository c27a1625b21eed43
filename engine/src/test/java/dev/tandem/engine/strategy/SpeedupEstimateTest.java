package dev.tandem.engine.strategy;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Decision;
import dev.tandem.engine.schedule.Preemption;
import dev.tandem.engine.schedule.Scene;
import dev.tandem.engine.schedule.StepDraft;
import org.junit.jupiter.api.Test;

/** The estimate with 90 sequences of 10 tokens on the GPU: T_l = 10 up to 100 rows and 0.1 per row beyond, T_ga = 9. */
class SpeedupEstimateTest {
    private static final Budget BUDGET = new Budget(400, 300, 400);
    private static final int GPU_ROWS = 90;

    /** The GPU has no room for a prompt beside the 90 sequences. */
    private final Scene scene = new Scene(300, 400, BUDGET).limit(60);

    private SpeedupEstimate.Estimate estimate(SpeedupEstimate.Kind kind) {
        return estimate(kind, 0);
    }

    private SpeedupEstimate.Estimate estimate(SpeedupEstimate.Kind kind, double targetSeconds) {
        while (scene.state.gpu().size() < GPU_ROWS) {
            scene.gpu(10);
        }
        StepDraft gpuOnly = new GpuOnly(BUDGET, Preemption.SWAP).draft(scene.state, new Decision());
        return new SpeedupEstimate(
                        new StepPredictor(TestProfile.model(), true, 0).ofLayers(), kind, (long) (targetSeconds * 1e9))
                .of(gpuOnly);
    }

    /** Ends many requests with an output of one token each. */
    private void endMany() {
        for (int i = 0; i < 600; i++) {
            scene.committer.remove(scene.gpu(2));
        }
    }

    @Test
    void twoSubBatchesHideLittleBehindDecodes() {
        // 90 tokens in 10 + 9, or 90 + 10 in 10 + 10 + 9, and no more than 10 hide
        for (int i = 0; i < 120; i++) {
            scene.host(10);
        }
        assertThat(estimate(SpeedupEstimate.Kind.TWO_SUB_BATCHES_WITH_PROMPTS))
                .isEqualTo(new SpeedupEstimate.Estimate(SpeedupEstimate.Kind.TWO_SUB_BATCHES_WITH_PROMPTS, 0, 0));
    }

    @Test
    void twoSubBatchesHideMoreBehindPrompts() {
        // each output token comes with 4 prompt tokens of 8 pairs: 90 in 45 + 9 + 0.72. With 72 host tokens there are
        // 648
        // prompt tokens: T_l0 = 73.8 hides T_ca1 = 72, and 162 take 73.8 + 10 + 9 + 1.296. The next number that is
        // tried
        // is 81, which does not hide
        endMany();
        for (int i = 0; i < 120; i++) {
            scene.waiting(4);
        }
        SpeedupEstimate.Estimate estimate = estimate(SpeedupEstimate.Kind.TWO_SUB_BATCHES_WITH_PROMPTS);
        assertThat(estimate.hostTokens()).isEqualTo(72);
        assertThat(estimate.gain()).isCloseTo(162 / 94.096 / (90 / 54.72) - 1, within(0.002));
    }

    @Test
    void withoutKvOnTheGpuPromptsHideNothing() {
        endMany();
        for (int i = 0; i < 120; i++) {
            scene.waiting(4);
        }
        assertThat(estimate(SpeedupEstimate.Kind.TWO_SUB_BATCHES))
                .isEqualTo(new SpeedupEstimate.Estimate(SpeedupEstimate.Kind.TWO_SUB_BATCHES, 0, 0));
    }

    @Test
    void twoSubBatchesCountOnlyHostTokensWithinTheTarget() {
        // 72 host tokens take 2 x 94.096 s, which is more than 0.97 of 194
        endMany();
        for (int i = 0; i < 120; i++) {
            scene.waiting(4);
        }
        SpeedupEstimate.Estimate estimate = estimate(SpeedupEstimate.Kind.TWO_SUB_BATCHES_WITH_PROMPTS, 194);
        assertThat(estimate.hostTokens()).isBetween(40, 71);
        assertThat(estimate.gain()).isBetween(0.0, 162 / 94.096 / (90 / 54.72) - 1);
        assertThat(estimate(SpeedupEstimate.Kind.TWO_SUB_BATCHES_WITH_PROMPTS, 195)
                        .hostTokens())
                .as("188.2 s are less than 0.97 of 195")
                .isEqualTo(72);
    }

    @Test
    void inFlightTokensCountWhereTheirLayersTakeLessThanTheTarget() {
        // a step takes at least 2 x (10 + 9) s, and a token waits for two of them: more than 76 s
        for (int i = 0; i < 120; i++) {
            scene.host(10);
        }
        assertThat(estimate(SpeedupEstimate.Kind.IN_FLIGHT, 200).hostTokens()).isPositive();
    }

    @Test
    void inFlightTokensCountWithinTheWholeTarget() {
        // some 82.4 s for two layers are more than 0.9 of 85, but less than 85 (ADR 148)
        for (int i = 0; i < 120; i++) {
            scene.host(10);
        }
        assertThat(estimate(SpeedupEstimate.Kind.IN_FLIGHT, 85).hostTokens()).isPositive();
        assertThat(estimate(SpeedupEstimate.Kind.IN_FLIGHT, 80))
                .as("82.4 s are more than 80")
                .isEqualTo(new SpeedupEstimate.Estimate(SpeedupEstimate.Kind.IN_FLIGHT, 0, 0));
    }

    /** With 32 prompt tokens per output, and T_l = 10 up to 100 rows, in-flight tokens bring more than they save. */
    @Test
    void inFlightTokensBringPromptsToo() {
        for (int i = 0; i < 120; i++) {
            scene.host(10);
        }
        double decoding = estimate(SpeedupEstimate.Kind.IN_FLIGHT).gain();
        assertThat(decoding).isPositive();
        scene.limit(40);
        for (int i = 0; i < 32; i++) {
            scene.waiting(39);
        }
        assertThat(estimate(SpeedupEstimate.Kind.IN_FLIGHT).gain()).isLessThan(0.5 * decoding);
    }

    /** A GPU with room for 90 sequences decodes 10 now: their prompts come first, and then it is full. */
    @Test
    void promptsWithRoomCountAsSequencesOfTheGpu() {
        Scene filling = new Scene(300, 400, BUDGET).limit(60);
        for (int i = 0; i < 10; i++) {
            filling.gpu(10);
        }
        for (int i = 0; i < 200; i++) {
            filling.waiting(10);
        }
        StepDraft decodes = GpuSteps.decodes(filling.state, BUDGET, Preemption.SWAP);
        int room = Prefills.promptsWithRoom(decodes);
        assertThat(room).isBetween(60, 90);
        Scene full = new Scene(300, 400, BUDGET).limit(60);
        for (int i = 0; i < 10 + room; i++) {
            full.gpu(10);
        }
        for (int i = 0; i < 200 - room; i++) {
            full.waiting(10);
        }
        SpeedupEstimate estimate = new SpeedupEstimate(
                new StepPredictor(TestProfile.model(), true, 0).ofLayers(), SpeedupEstimate.Kind.IN_FLIGHT, 0);
        assertThat(estimate.whenFull(decodes).gain())
                .isCloseTo(
                        estimate.of(GpuSteps.decodes(full.state, BUDGET, Preemption.SWAP))
                                .gain(),
                        within(0.02));
    }
}
