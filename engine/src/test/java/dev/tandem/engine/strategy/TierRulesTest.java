package dev.tandem.engine.strategy;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.engine.executor.PiggybackedPrefill;
import dev.tandem.engine.request.LatencyTargets;
import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Scene;
import dev.tandem.engine.schedule.StepDraft;
import dev.tandem.engine.step.AttentionSite;
import dev.tandem.engine.strategy.paper.Apex;
import dev.tandem.engine.strategy.paper.Neo;
import java.util.List;
import java.util.Optional;
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

    /** The host's time per token rises by so many nanoseconds with each sequence. */
    private double perSequence;

    private double shortestTarget(StepDraft draft, int sequences, long tokens) {
        return sequences * perSequence / TierRules.MAX_PACE * 1e-9;
    }

    private boolean mayEnter() {
        return rules.mayLiveOnHost(new StepDraft(scene.state, BUDGET), candidate, this::shortestTarget);
    }

    /** Completes a step with a token of a host sequence. */
    private void hostToken(Sequence host, long now) {
        StepDraft draft = new StepDraft(scene.state, BUDGET);
        host.advance(host.remaining() - 1);
        draft.add(0, host, 1, AttentionSite.CPU_FROM_HOST);
        with(host, 1, 0);
        scene.committer.now(now);
        rules.completed(draft, 0);
    }

    private void step() {
        rules.completed(new StepDraft(scene.state, BUDGET), 0);
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
    void requestsEnterWhileTheExpectedTimePerTokenIsWithinTheirTarget() {
        perSequence = 20;
        assertThat(mayEnter()).as("one sequence, 20 ns").isTrue();
        scene.host(9);
        assertThat(mayEnter()).as("two sequences, 40 ns").isTrue();
        scene.inFlight(9);
        assertThat(mayEnter()).as("three sequences, 60 ns").isFalse();
    }

    @Test
    void sequencesThatTheDraftStartsOnTheHostCount() {
        perSequence = 20;
        StepDraft draft = new StepDraft(scene.state, BUDGET);
        draft.start(scene.waiting(8), 8, AttentionSite.GPU_PREFILL_OFFLOAD);
        draft.start(scene.waiting(8), 8, AttentionSite.GPU_PREFILL_OFFLOAD);
        assertThat(rules.mayLiveOnHost(draft, candidate, this::shortestTarget)).isFalse();
    }

    @Test
    void aHostThatIsSlowerThanExpectedTakesFewerAndOpensAgain() {
        perSequence = 20;
        Sequence host = with(scene.host(9), 4, 0);
        scene.committer.now(1000);
        int steps = 0;
        for (; mayEnter(); steps++) {
            assertThat(steps).as("steps until the host is closed").isLessThan(100);
            scene.committer.now(1000 + steps);
            Sequence enters = scene.host(9);
            step();
            scene.committer.remove(enters);
        }
        assertThat(steps).as("1.01 to the 12th of 44.4 ns").isEqualTo(12);
        scene.committer.remove(host);
        scene.host(9);
        for (steps = 0; !mayEnter(); steps++) {
            assertThat(steps).as("steps until the host opens again").isLessThan(100);
            step();
        }
        assertThat(steps).isEqualTo(1);
    }

    @Test
    void inFlightTokensThatAreLateCloseTheHostThoughNoneEnters() {
        perSequence = 20;
        with(scene.inFlight(9), 4, 0);
        for (int i = 1; mayEnter(); i++) {
            assertThat(i).as("measurements until the host is closed").isLessThan(100);
            scene.committer.now(1000 * i);
            step();
        }
    }

    /** The queue is empty: one batch may be faster than two, by their expected times. */
    @Test
    void expectationsGrowWhereNoneWaits() {
        scene.committer.remove(candidate);
        Sequence host = with(scene.host(9), 4, 0);
        for (int i = 1; i <= 3; i++) {
            hostToken(host, 1000 * i);
        }
        assertThat(rules.correction()).isEqualTo(1.01 * 1.01 * 1.01);
    }

    /** It is late for 100 measurements; the expected 49.8 ns exceed the target after one. */
    @Test
    void aLateHostThatNoneEntersOpensAsSoonAsItIsFast() {
        perSequence = 22.4;
        Sequence host = with(scene.host(9), 4, 0);
        for (int i = 1; i <= 100; i++) {
            hostToken(host, 1000 * i);
            assertThat(mayEnter()).as("measurement %d", i).isFalse();
        }
        hostToken(host, 100_010);
        assertThat(rules.missesTargets()).isTrue();
        assertThat(mayEnter()).isTrue();
    }

    /** 250 ns per token in the mean, of which the last four have 10. */
    @Test
    void aHostThatWasSlowTakesAsManyAsBefore() {
        perSequence = 24;
        Sequence host = with(scene.host(9), 4, 0);
        scene.committer.now(1960);
        step();
        double correction = rules.correction();
        assertThat(correction).isGreaterThan(1);
        for (int i = 0; i < 4; i++) {
            hostToken(host, 1970 + 10 * i);
            assertThat(rules.missesTargets()).isTrue();
        }
        assertThat(rules.correction()).isLessThan(correction);
        scene.committer.now(5000);
        Sequence enters = scene.host(9);
        step();
        scene.committer.remove(enters);
        assertThat(rules.correction()).as("no token for 3000 ns").isGreaterThan(1);
    }

    @Test
    void theShortestTargetOfSomeSequencesAndTheDefaultCounts() {
        Sequence patient = scene.targets(new LatencyTargets(0, 90)).waiting(8);
        assertThat(rules.allKeepTargets(List.of(patient, candidate), 50e-9)).isTrue();
        assertThat(rules.allKeepTargets(List.of(patient), 51e-9))
                .as("the default")
                .isFalse();
        Sequence urgent = scene.targets(new LatencyTargets(0, 40)).waiting(8);
        assertThat(rules.allKeepTargets(List.of(urgent), 40e-9)).isTrue();
        assertThat(rules.allKeepTargets(List.of(patient, urgent), 41e-9)).isFalse();
    }

    @Test
    void droppedDraftsDoNotCount() {
        perSequence = 60;
        for (int i = 0; i < 1000; i++) {
            assertThat(mayEnter()).isFalse();
        }
        perSequence = 40;
        assertThat(mayEnter()).isTrue();
    }

    @Test
    void requestsWithoutATargetMayAlwaysEnter() {
        perSequence = 1e9;
        assertThat(TierRules.neutral()
                        .mayLiveOnHost(new StepDraft(scene.state, BUDGET), candidate, this::shortestTarget))
                .isTrue();
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

    @Test
    void neoAndApexCountACompletedStepOnce() {
        StepPredictor predictor = new StepPredictor(TestProfile.model(), true, 0);
        Deviations printed = Deviations.of(Fidelity.PRINTED);
        Pipeline pipeline = new Pipeline(BUDGET, predictor, rules, printed, true);
        StepDraft draft = new StepDraft(scene.state, BUDGET);
        new Neo(pipeline, predictor, Optional.empty()).completed(draft, 4);
        assertThat(rules.meanStepSeconds()).isEqualTo(4);
        AsyncOverlap async =
                new AsyncOverlap(BUDGET, predictor, rules, printed, InFlightLimits.UNLIMITED, PiggybackedPrefill.NONE);
        new Apex(BUDGET, predictor, pipeline, async, printed, 0).completed(draft, 260);
        assertThat(rules.meanStepSeconds())
                .as("4 + (260 - 4) / 256, though both of its policies have the rules")
                .isEqualTo(5);
    }
}
