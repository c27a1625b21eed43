package dev.tandem.engine.strategy.select;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.engine.request.LatencyTargets;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Decision;
import dev.tandem.engine.schedule.Scene;
import dev.tandem.engine.schedule.Shape;
import dev.tandem.engine.schedule.StepDraft;
import dev.tandem.engine.strategy.StepPredictor;
import dev.tandem.engine.strategy.TestProfile;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import org.junit.jupiter.api.Test;

/** An arm that drafts {@code wanted}, which the selector holds in its pipeline, and takes out of async overlap. */
class PipelineStaysTest {
    private static final Budget BUDGET = new Budget(600, 20, 600);
    private static final int STAYS = StrategySelector.PIPELINE_STAYS;

    private final Scene scene = new Scene(25, 400, BUDGET).limit(1000);
    private final StepPredictor predictor = new StepPredictor(TestProfile.model(), true, 0);
    private Shape wanted = Shape.ASYNC;
    private StepDraft instead;
    private boolean keepsTarget = true;
    private final StrategySelector selector = new StrategySelector(
            List.of(new Arm(
                    "arm",
                    (state, why) -> draft(wanted),
                    Set.of(),
                    Optional.of((state, why) -> {
                        why.because("as neo has it");
                        return instead = draft(Shape.GPU_ONLY);
                    }),
                    Optional.empty(),
                    Optional.of(new Arm.BeyondTarget(state -> keepsTarget, (state, why) -> {
                        why.because("as neo has it");
                        return draft(state.inFlight().isEmpty() ? Shape.PIPELINE : Shape.ASYNC);
                    })))),
            Optional.empty(),
            predictor,
            new GoodputRanking(predictor, LatencyTargets.NONE),
            SelectorLimits.DEFAULT,
            () -> Double.NaN);

    private StepDraft draft(Shape shape) {
        StepDraft draft = new StepDraft(scene.state, BUDGET);
        draft.shape(shape);
        return draft;
    }

    private Shape step() {
        return step(new Decision()).shape();
    }

    private StepDraft step(Decision why) {
        StepDraft draft = selector.draft(scene.state, why);
        selector.completed(draft, 1);
        return draft;
    }

    private void pipeline() {
        wanted = Shape.PIPELINE;
        assertThat(step()).isEqualTo(Shape.PIPELINE);
        wanted = Shape.ASYNC;
    }

    @Test
    void asyncOverlapBeginsAtOnceWithoutAPipelineBefore() {
        assertThat(step()).isEqualTo(Shape.ASYNC);
    }

    @Test
    void thePipelineIsLeftAfterSomeSteps() {
        pipeline();
        for (int i = 1; i <= STAYS; i++) {
            Decision why = new Decision();
            assertThat(step(why)).as("step %d", i).isSameAs(instead);
            assertThat(why.reason()).endsWith("number " + i + "; as neo has it");
        }
        assertThat(step()).isEqualTo(Shape.ASYNC);
        assertThat(step()).as("until the next pipeline step").isEqualTo(Shape.ASYNC);
    }

    @Test
    void aPipelineInBetweenRestartsTheCount() {
        pipeline();
        for (int i = 1; i < STAYS; i++) {
            assertThat(step()).isEqualTo(Shape.GPU_ONLY);
        }
        pipeline();
        for (int i = 1; i <= STAYS; i++) {
            assertThat(step()).isEqualTo(Shape.GPU_ONLY);
        }
        assertThat(step()).isEqualTo(Shape.ASYNC);
    }

    @Test
    void aGpuOnlyStepInBetweenDoesNotRestartIt() {
        pipeline();
        for (int i = 1; i <= STAYS; i++) {
            wanted = Shape.GPU_ONLY;
            step();
            wanted = Shape.ASYNC;
            assertThat(step()).isEqualTo(Shape.GPU_ONLY);
        }
        assertThat(step()).isEqualTo(Shape.ASYNC);
    }

    @Test
    void droppedDraftsDoNotCount() {
        pipeline();
        for (int i = 0; i < 3 * STAYS; i++) {
            selector.draft(scene.state, new Decision());
        }
        for (int i = 1; i <= STAYS; i++) {
            assertThat(step()).as("step %d", i).isEqualTo(Shape.GPU_ONLY);
        }
        assertThat(step()).isEqualTo(Shape.ASYNC);
        wanted = Shape.PIPELINE;
        selector.draft(scene.state, new Decision());
        wanted = Shape.ASYNC;
        assertThat(step()).as("after a pipeline draft that was dropped").isEqualTo(Shape.ASYNC);
    }

    @Test
    void inFlightTokensContinue() {
        pipeline();
        scene.inFlight(20);
        assertThat(step()).isEqualTo(Shape.ASYNC);
    }

    @Test
    void beyondTheTargetInFlightTokensReturnAndThePipelineGoesOn() {
        scene.inFlight(20);
        wanted = Shape.GPU_ONLY;
        keepsTarget = false;
        assertThat(step()).as("tokens in flight").isEqualTo(Shape.ASYNC);
        scene.committer.lose(scene.state.inFlight().iterator().next().key(), false);
        Decision why = new Decision();
        assertThat(step(why).shape()).as("none in flight").isEqualTo(Shape.PIPELINE);
        assertThat(why.reason()).isEqualTo("in-flight tokens would wait longer than their target; as neo has it");
        keepsTarget = true;
        assertThat(step()).isEqualTo(Shape.GPU_ONLY);
    }

    @Test
    void gpuOnlyStepsAreTheArmsOwn() {
        pipeline();
        wanted = Shape.GPU_ONLY;
        instead = null;
        assertThat(step()).isEqualTo(Shape.GPU_ONLY);
        assertThat(instead).isNull();
    }
}
