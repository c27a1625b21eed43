package dev.tandem.engine.strategy;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.engine.cost.CostModel;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Scene;
import dev.tandem.engine.schedule.StepDraft;
import dev.tandem.engine.strategy.SpeedupEstimate.Kind;
import java.util.Set;
import org.junit.jupiter.api.Test;

/**
 * Which steps fill the host. {@link TestProfile}: T_l = 10 up to 100 rows, T_ca = 0.1 per token, 2 layers. Eight
 * sequences of 8 tokens fill the GPU.
 */
class HostGainTest {
    private static final Budget BUDGET = new Budget(400, 40, 400);
    private static final int PIGGYBACKED = 64;

    private static Scene fullGpu() {
        return fullGpu(200);
    }

    private static Scene fullGpu(int limit) {
        Scene scene = new Scene(26, 400, BUDGET).limit(limit);
        for (int i = 0; i < 8; i++) {
            scene.gpu(8);
        }
        return scene;
    }

    private static StepDraft draft(Scene scene, CostModel cost, int piggybackedTokens) {
        StepPredictor predictor = new StepPredictor(cost, true, 0);
        return new Pipeline(
                        BUDGET,
                        predictor,
                        TierRules.neutral(),
                        Deviations.of(Fidelity.TANDEM),
                        true,
                        Set.of(Kind.HOST_TOKENS_IN_BOTH),
                        piggybackedTokens)
                .withoutHostTokens(scene.state);
    }

    @Test
    void promptsFillAHostThatGains() {
        Scene scene = fullGpu();
        for (int i = 0; i < 15; i++) {
            scene.waiting(100);
        }
        assertThat(Scene.text(draft(scene, TestProfile.model(), PIGGYBACKED))).contains("r8+100host");
    }

    @Test
    void promptsDoNotFillAHostThatGainsNothing() {
        // one host token of 8 tokens takes the CPU 80 s per layer, and both linear stages take 20
        Scene scene = fullGpu();
        scene.waiting(100);
        assertThat(Scene.text(draft(scene, TestProfile.withCpu(0.01), PIGGYBACKED)))
                .isEqualTo("[r0 r1 r2 r3 r4 r5 r6 r7]");
    }

    @Test
    void promptsOfShortOutputsTakeLongSteps() {
        // ten outputs of a limit of 110 come with 100 prompt tokens, which do not fit beside their decodes
        Scene scene = fullGpu(110);
        scene.waiting(100);
        assertThat(Scene.text(draft(scene, TestProfile.withCpu(0.01), PIGGYBACKED)))
                .contains("r8+100host");
    }

    @Test
    void promptsFillTheHostWhateverItGainsWhereTheyDoNotPiggyback() {
        Scene scene = fullGpu();
        scene.waiting(100);
        assertThat(Scene.text(draft(scene, TestProfile.withCpu(0.01), 0))).contains("r8+100host");
    }

    @Test
    void hostSequencesReturnBeforePromptsStartWhereTheHostGainsNothing() {
        // 10 blocks are free: the prompt has room for itself and one block per sequence, the host sequence has not
        Scene scene = fullGpu();
        scene.host(40);
        scene.waiting(4);
        assertThat(Scene.text(draft(scene, TestProfile.withCpu(0.01), 0))).contains("r9+4");
        assertThat(Scene.text(draft(scene, TestProfile.withCpu(0.01), PIGGYBACKED)))
                .isEqualTo("[r0 r1 r2 r3 r4 r5 r6 r7]");
    }
}
