package dev.tandem.engine.strategy;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Decision;
import dev.tandem.engine.schedule.Scene;
import dev.tandem.engine.schedule.Shape;
import dev.tandem.engine.schedule.StepDraft;
import org.junit.jupiter.api.Test;

class LingeringTest {
    private static final Budget BUDGET = new Budget(600, 20, 600);

    private final Scene scene = new Scene(25, 400, BUDGET).limit(1000);
    private Shape wanted = Shape.ASYNC;
    private StepDraft neos;
    private final Lingering policy = new Lingering((state, why) -> draft(wanted), (state, why) -> {
        why.because("as neo has it");
        return neos = draft(Shape.GPU_ONLY);
    });

    private StepDraft draft(Shape shape) {
        StepDraft draft = new StepDraft(scene.state, BUDGET);
        draft.shape(shape);
        return draft;
    }

    private Shape step() {
        return step(new Decision()).shape();
    }

    private StepDraft step(Decision why) {
        StepDraft draft = policy.draft(scene.state, why);
        policy.completed(draft, 1);
        return draft;
    }

    private void pipeline() {
        wanted = Shape.PIPELINE;
        assertThat(step()).isEqualTo(Shape.PIPELINE);
        wanted = Shape.ASYNC;
    }

    @Test
    void asyncOverlapBeginsAtOnceWhereNoPipelineWas() {
        assertThat(step()).isEqualTo(Shape.ASYNC);
    }

    @Test
    void thePipelineIsLeftAfterSomeSteps() {
        pipeline();
        for (int i = 1; i <= Lingering.PATIENCE; i++) {
            Decision why = new Decision();
            assertThat(step(why)).as("step %d", i).isSameAs(neos);
            assertThat(why.reason()).endsWith("number " + i + "; as neo has it");
        }
        assertThat(step()).isEqualTo(Shape.ASYNC);
        assertThat(step()).as("until there is a pipeline again").isEqualTo(Shape.ASYNC);
    }

    @Test
    void aPipelineInBetweenBeginsAnew() {
        pipeline();
        for (int i = 1; i < Lingering.PATIENCE; i++) {
            assertThat(step()).isEqualTo(Shape.GPU_ONLY);
        }
        pipeline();
        for (int i = 1; i <= Lingering.PATIENCE; i++) {
            assertThat(step()).isEqualTo(Shape.GPU_ONLY);
        }
        assertThat(step()).isEqualTo(Shape.ASYNC);
    }

    @Test
    void aStepOfTheGpuAloneInBetweenDoesNot() {
        pipeline();
        for (int i = 1; i <= Lingering.PATIENCE; i++) {
            wanted = Shape.GPU_ONLY;
            step();
            wanted = Shape.ASYNC;
            assertThat(step()).isEqualTo(Shape.GPU_ONLY);
        }
        assertThat(step()).isEqualTo(Shape.ASYNC);
    }

    @Test
    void stepsOfWhichNothingWasMadeDoNotCount() {
        pipeline();
        for (int i = 0; i < 3 * Lingering.PATIENCE; i++) {
            policy.draft(scene.state, new Decision());
        }
        for (int i = 1; i <= Lingering.PATIENCE; i++) {
            assertThat(step()).as("step %d", i).isEqualTo(Shape.GPU_ONLY);
        }
        assertThat(step()).isEqualTo(Shape.ASYNC);
        wanted = Shape.PIPELINE;
        policy.draft(scene.state, new Decision());
        wanted = Shape.ASYNC;
        assertThat(step()).as("after a pipeline of which nothing was made").isEqualTo(Shape.ASYNC);
    }

    @Test
    void inFlightTokensContinue() {
        pipeline();
        scene.inFlight(20);
        assertThat(step()).isEqualTo(Shape.ASYNC);
    }

    @Test
    void stepsOfTheGpuAloneAreTheRules() {
        pipeline();
        wanted = Shape.GPU_ONLY;
        neos = null;
        assertThat(step()).isEqualTo(Shape.GPU_ONLY);
        assertThat(neos).isNull();
    }
}
