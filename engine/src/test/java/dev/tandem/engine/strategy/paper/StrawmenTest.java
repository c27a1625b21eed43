package dev.tandem.engine.strategy.paper;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Decision;
import dev.tandem.engine.schedule.Scene;
import dev.tandem.engine.schedule.Shape;
import dev.tandem.engine.schedule.StepDraft;
import dev.tandem.engine.strategy.TestProfile;
import dev.tandem.engine.strategy.select.Strategy;
import org.junit.jupiter.api.Test;

/** Shapes and reasons of NEO's strawmen and of its baseline. */
class StrawmenTest {
    private static final Budget BUDGET = new Budget(400, 20, 400);

    private static StepDraft draft(Strategy strategy, Scene scene, Decision why) {
        return strategy.policy(Strategy.Options.builder(BUDGET).build(), TestProfile.model())
                .draft(scene.state, why);
    }

    @Test
    void symmetricGivesEachTokenToTheSubBatchWithLessContext() {
        Scene scene = new Scene(50, 200, BUDGET);
        scene.host(30);
        scene.host(40);
        scene.host(50);
        Decision why = new Decision();
        StepDraft draft = draft(Strategy.SYMMETRIC, scene, why);
        assertThat(Scene.text(draft)).as("30, then 40, then 30 < 40").isEqualTo("[r0cpu r2cpu] [r1cpu]");
        assertThat(draft.shape()).isEqualTo(Shape.PIPELINE);
        assertThat(why.reason()).isEqualTo("symmetric: the CPU computes attention for sub-batches of 2 and 1 tokens");
    }

    @Test
    void symmetricWithOneTokenHasNothingToOverlap() {
        Scene scene = new Scene(50, 200, BUDGET);
        scene.host(30);
        StepDraft draft = draft(Strategy.SYMMETRIC, scene, new Decision());
        assertThat(draft.shape()).isEqualTo(Shape.OFFLOAD);
    }

    @Test
    void symmetricSaysThatPrefillsAreAlone() {
        Scene scene = new Scene(50, 200, BUDGET);
        scene.host(30);
        scene.waiting(12);
        Decision why = new Decision();
        draft(Strategy.SYMMETRIC, scene, why);
        assertThat(why.reason()).isEqualTo("symmetric: 12 rows of prefill in a step of their own");
    }

    @Test
    void simpleOffloadWithoutDecodesDoesNotWaitForTheCpu() {
        Scene scene = new Scene(50, 200, BUDGET);
        scene.waiting(12);
        Decision why = new Decision();
        StepDraft draft = draft(Strategy.SIMPLE_OFFLOAD, scene, why);
        assertThat(draft.shape()).isEqualTo(Shape.GPU_ONLY);
        assertThat(why.reason()).startsWith("simple-offload: the CPU computes attention for 0 tokens");
    }

    @Test
    void swiftLlmSaysWhetherItComputesPromptsOrDecodes() {
        Scene scene = new Scene(50, 0, BUDGET);
        scene.gpu(9);
        Decision why = new Decision();
        draft(Strategy.SWIFTLLM, scene, why);
        assertThat(why.reason()).isEqualTo("swiftllm: 1 decodes");
        scene.waiting(12);
        draft(Strategy.SWIFTLLM, scene, why);
        assertThat(why.reason()).isEqualTo("swiftllm: 12 tokens of whole prompts");
    }
}
