package dev.tandem.engine.strategy;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.engine.request.LatencyTargets;
import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Scene;
import dev.tandem.engine.schedule.StepDraft;
import dev.tandem.engine.step.AttentionSite;
import org.junit.jupiter.api.Test;

/** Rules with a target of 50 ns per token, which measure in every step. */
class TierRulesTest {
    private static final Budget BUDGET = new Budget(400, 20, 400);

    private final TierRules rules = new TierRules(new LatencyTargets(0, 50), 0, 0, 1);
    private final Scene scene = new Scene(50, 60, BUDGET);
    private final Sequence candidate = scene.waiting(8);

    private static Sequence with(Sequence sequence, int tokens, long nanos) {
        for (int i = 0; i < tokens; i++) {
            sequence.append(0, nanos);
        }
        return sequence;
    }

    private boolean mayEnter() {
        return rules.mayLiveOnHost(new StepDraft(scene.state, BUDGET), candidate);
    }

    private void step() {
        rules.completed(new StepDraft(scene.state, BUDGET));
    }

    /** The host returns four tokens in so many nanoseconds, then its sequence ends. */
    private void measure(long nanos) {
        Sequence host = with(scene.host(9), 4, nanos);
        scene.committer.now(scene.state.now() + nanos);
        step();
        scene.committer.remove(host);
    }

    @Test
    void inFlightTokensCount() {
        with(scene.inFlight(9), 4, 0);
        scene.committer.now(1000);
        step();
        assertThat(rules.hostNanosPerToken()).isEqualTo(250);
    }

    @Test
    void thePrefillOnTheHostDoesNotCount() {
        Sequence returned = scene.waiting(26);
        StepDraft returns = new StepDraft(scene.state, BUDGET);
        returns.start(returned, 26, AttentionSite.GPU_PREFILL_OFFLOAD);
        scene.committer.commit(returns);
        returned.advance(26);
        returned.append(0, 10_000); // the prompt took 10,000 ns
        with(returned, 4, 10_400);
        scene.committer.now(10_400);
        step();
        assertThat(rules.hostNanosPerToken()).isEqualTo(100);
    }

    @Test
    void oneSequenceProbesAHostThatIsNotMeasured() {
        assertThat(mayEnter()).isTrue();
        scene.host(9);
        assertThat(mayEnter()).as("while another is there").isFalse();
    }

    @Test
    void oneProbePerStepEnters() {
        StepDraft draft = new StepDraft(scene.state, BUDGET);
        assertThat(rules.mayLiveOnHost(draft, candidate)).isTrue();
        draft.start(candidate, 8, AttentionSite.GPU_PREFILL_OFFLOAD);
        assertThat(rules.mayLiveOnHost(draft, scene.waiting(8))).isFalse();
    }

    @Test
    void aHostThatWasTooSlowIsMeasuredAgain() {
        measure(1000);
        assertThat(rules.hostNanosPerToken()).isEqualTo(250);
        assertThat(mayEnter()).isFalse();
        int steps = 0;
        for (; !mayEnter(); steps++) {
            assertThat(steps).as("steps until the host is measured again").isLessThan(100_000);
            step();
        }
        assertThat(steps).as("not at once").isGreaterThan(1000);
        measure(100);
        assertThat(rules.hostNanosPerToken()).isEqualTo(25);
        scene.host(9);
        assertThat(mayEnter())
                .as("fast enough, so others on the host do not matter")
                .isTrue();
    }

    @Test
    void aProbeThatIsTooSlowClosesTheHostAgain() {
        measure(1000);
        while (!mayEnter()) {
            step();
        }
        measure(1000);
        assertThat(mayEnter()).isFalse();
    }

    @Test
    void droppedDraftsDoNotCount() {
        measure(1000);
        for (int i = 0; i < 100_000; i++) {
            assertThat(mayEnter()).isFalse();
        }
    }

    @Test
    void sequencesThatMissTheirTargetAreKnown() {
        with(scene.host(9), 4, 0);
        scene.committer.now(100);
        step();
        assertThat(rules.missesTargets()).isFalse();
        scene.committer.now(1000);
        step();
        assertThat(rules.missesTargets()).isTrue();
    }
}
