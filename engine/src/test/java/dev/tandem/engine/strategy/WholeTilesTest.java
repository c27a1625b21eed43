package dev.tandem.engine.strategy;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Decision;
import dev.tandem.engine.schedule.Preemption;
import dev.tandem.engine.schedule.Scene;
import dev.tandem.engine.schedule.StepDraft;
import java.util.function.IntToDoubleFunction;
import org.junit.jupiter.api.Test;

/** Steps of gpu-only with prompts of 70 tokens and more, on GEMMs that compute 64 rows at a time. */
class WholeTilesTest {
    private static final Budget BUDGET = new Budget(400, 20, 400);
    private static final IntToDoubleFunction STAIRS = rows -> (rows + 63) / 64;

    private final Scene scene = new Scene(200, 0, BUDGET);

    private StepDraft draft(IntToDoubleFunction linear) {
        GpuOnly policy = new GpuOnly(BUDGET, Preemption.RECOMPUTE, 0, 0, new WholeTiles(linear), true);
        return policy.draft(scene.state, new Decision());
    }

    /** With room for one of two prompts. */
    private void fillTheBatch(int first) {
        scene.waiting(first);
        scene.waiting(1000); // more than the GPU has room for
    }

    @Test
    void aStepEndsWithAWholeTileWhileOthersWait() {
        fillTheBatch(70);
        assertThat(draft(STAIRS).totalRows()).isEqualTo(64);
    }

    @Test
    void aPromptAloneIsComputedAtOnce() {
        scene.waiting(70);
        assertThat(draft(STAIRS).totalRows()).isEqualTo(70);
    }

    @Test
    void aStepThatNearlyFillsItsTilesGoesOn() {
        fillTheBatch(125);
        assertThat(draft(STAIRS).totalRows())
                .as("two tiles for 125 rows rather than one for 64")
                .isEqualTo(125);
    }

    @Test
    void whereRowsCostTheSameNoPromptIsCut() {
        fillTheBatch(70);
        assertThat(draft(rows -> rows).totalRows()).isEqualTo(70);
        assertThat(draft(rows -> 100 + rows).totalRows())
                .as("more rows cost less each")
                .isEqualTo(70);
    }

    @Test
    void decodesAreNeverLeftOut() {
        for (int i = 0; i < 5; i++) {
            scene.gpu(20);
        }
        scene.waiting(62);
        scene.waiting(1000);
        assertThat(draft(STAIRS).load(0).gpuRows()).isEqualTo(5);
        assertThat(draft(STAIRS).totalRows())
                .as("5 decodes and 59 of 62 prompt tokens")
                .isEqualTo(64);
        Scene decodes = new Scene(400, 0, new Budget(400, 80, 400));
        for (int i = 0; i < 65; i++) {
            decodes.gpu(20);
        }
        decodes.waiting(5000);
        GpuOnly policy = new GpuOnly(decodes.budget(), Preemption.RECOMPUTE, 0, 0, new WholeTiles(STAIRS), true);
        assertThat(policy.draft(decodes.state, new Decision()).totalRows()).isEqualTo(65);
    }
}
