package dev.tandem.engine.strategy;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.engine.cost.CostModel;
import dev.tandem.engine.executor.PiggybackedPrefill;
import dev.tandem.engine.request.LatencyTargets;
import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Decision;
import dev.tandem.engine.schedule.Preemption;
import dev.tandem.engine.schedule.Scene;
import dev.tandem.engine.step.StepPlan;
import java.util.Optional;
import org.junit.jupiter.api.Test;

/** Steps where in-flight tokens would wait longer than their target: a second sub-batch takes as long as the first. */
class HostDrainTest {
    private static final Budget BUDGET = new Budget(64, 32, 64);

    private static HostDrain drain() {
        CostModel cost = TestProfile.withCpu(100);
        StepPredictor predictor = new StepPredictor(cost, true, 0);
        TierRules rules = new TierRules(new LatencyTargets(0, 1), 0, 0);
        Deviations deviations = Deviations.of(Fidelity.TANDEM);
        AsyncOverlap overlap = new AsyncOverlap(
                BUDGET, predictor, rules, deviations, new InFlightLimits(64, 64, true), PiggybackedPrefill.NONE);
        Pipeline pipeline = new Pipeline(BUDGET, predictor, rules, deviations, true);
        return new HostDrain(new GpuOnly(BUDGET, Preemption.SWAP), overlap, Optional.of(pipeline));
    }

    /** Fills the GPU, so that no host sequence can return. */
    private static Scene scene(int gpu, int host) {
        Scene scene = new Scene(3 * gpu, 100, BUDGET);
        for (int i = 0; i < gpu; i++) {
            scene.gpu(10);
        }
        for (int i = 0; i < host; i++) {
            scene.host(10);
        }
        return scene;
    }

    @Test
    void hostSequencesDecodeInTwoSubBatchesWhereThatIsFaster() {
        assertThat(scene(2, 4).draft(drain())).isEqualTo("[r0 r1] [r2cpu r3cpu r4cpu r5cpu]");
    }

    @Test
    void hostSequencesWaitWhereTwoSubBatchesWouldBeSlower() {
        assertThat(scene(4, 2).draft(drain())).isEqualTo("[r0 r1 r2 r3]");
    }

    @Test
    void waitingHostSequencesReturnBeforePromptsStart() {
        Scene scene = new Scene(24, 100, BUDGET);
        for (int i = 0; i < 4; i++) {
            scene.gpu(10);
        }
        scene.host(10);
        scene.waiting(30);
        assertThat(scene.draft(drain())).isEqualTo("r4>gpu [r0 r1 r2 r3 r4]");
    }

    @Test
    void inFlightTokensPauseOnceTheGpuHasRoom() {
        Scene scene = new Scene(50, 100, BUDGET);
        scene.inFlight(10);
        scene.gpu(10);
        assertThat(scene.draft(drain())).isEqualTo("[r1] pause r0");
    }

    @Test
    void promptsDoNotTakeTheRoomOfPausedTokens() {
        Scene scene = new Scene(9, 100, BUDGET);
        scene.inFlight(10);
        scene.gpu(10);
        scene.waiting(8);
        assertThat(scene.draft(drain())).isEqualTo("[r1] pause r0");
    }

    /** A token that the executor releases at once would enter layer 0 again in the step in which prompts come first. */
    @Test
    void inFlightTokensGoOnWhilePromptsTakeTurns() {
        CostModel cost = TestProfile.withCpu(100);
        TierRules rules = new TierRules(LatencyTargets.NONE, 0, 0);
        AsyncOverlap overlap = new AsyncOverlap(
                BUDGET,
                new StepPredictor(cost, true, 0),
                rules,
                Deviations.of(Fidelity.TANDEM),
                new InFlightLimits(64, 64, true),
                PiggybackedPrefill.NONE);
        HostDrain drain = new HostDrain(new GpuOnly(BUDGET, Preemption.SWAP), overlap, Optional.empty());
        Scene scene = new Scene(20, 100, BUDGET);
        Sequence inFlight = scene.inFlight(10);
        scene.gpu(10);
        scene.waiting(72); // it needs 18 blocks
        for (int step = 0; step < 4; step++) {
            StepPlan plan = scene.committer.commit(drain.draft(scene.state, new Decision()));
            scene.complete(plan);
            plan.pause().forEach(scene.committer::endInFlight);
            assertThat(plan.pause()).as("step %d", step).isEmpty();
            assertThat(scene.state.isInFlight(inFlight.key())).isTrue();
        }
    }

    @Test
    void hostSequencesDecodeWhereTheGpuHasNothingElse() {
        assertThat(scene(0, 2).draft(drain())).contains("r0cpu");
    }
}
