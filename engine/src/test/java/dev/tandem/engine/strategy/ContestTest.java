package dev.tandem.engine.strategy;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.engine.cost.CostModel;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Decision;
import dev.tandem.engine.schedule.Policy;
import dev.tandem.engine.schedule.Preemption;
import dev.tandem.engine.schedule.Scene;
import dev.tandem.engine.schedule.StepDraft;
import org.junit.jupiter.api.Test;

/**
 * Who made each step, as text: r the rules, o overlap alone, l landing; their steps are alike but for the time they
 * take.
 */
class ContestTest {
    private static final Budget BUDGET = new Budget(400, 20, 400);
    private static final Contest.Limits LIMITS = new Contest.Limits(3, 4, 10, 40);
    /** Steps before the first trial: twice the time to settle, for the host has more rows than before, and a window. */
    private static final String FIRST = "r".repeat(3 + 3 + 4);

    private final CostModel cost = TestProfile.model();
    private final StepPredictor predictor = new StepPredictor(cost, true, 0);
    private final Policy step = Strategy.ASYNC_OVERLAP.policy(Strategy.Options.of(BUDGET), cost);
    private final Scene scene = new Scene(3, 100, BUDGET).limit(60);
    private final StringBuilder turns = new StringBuilder();
    private final Contest contest = new Contest(named('r'), named('o'), named('l'), predictor, LIMITS);

    private Policy named(char name) {
        return (state, why) -> {
            turns.append(name);
            return step.draft(state, why);
        };
    }

    private String run(int steps, double overlapSpeed) {
        turns.setLength(0);
        for (int i = 0; i < steps; i++) {
            StepDraft draft = contest.draft(scene.state, new Decision());
            boolean overlaps = turns.charAt(turns.length() - 1) == 'o';
            contest.completed(draft, predictor.of(draft) / (overlaps ? overlapSpeed : 1));
        }
        return turns.toString();
    }

    private void hostTokens() {
        scene.gpu(9);
        scene.host(20);
        scene.host(20);
    }

    @Test
    void whoDidMoreGoesOn() {
        hostTokens();
        String won = "o".repeat(3 + 4 + 10 + 4);
        assertThat(run(90, 2)).startsWith(FIRST + won + "rrr" + "o".repeat(40 + 4) + "rrr" + "o");
    }

    @Test
    void hardlyMoreIsNotEnough() {
        hostTokens();
        String tried = "o".repeat(3 + 4);
        assertThat(run(80, 1.01)).startsWith(FIRST + tried + "r".repeat(40 + 4) + tried + "r");
    }

    @Test
    void whoIsHopelessIsGivenUpAfterItsFirstSteps() {
        hostTokens();
        assertThat(run(60, 0.5)).startsWith(FIRST + "ooo" + "r".repeat(40 + 4) + "o");
    }

    @Test
    void aChallengerHasTimeAsLongAsTheHostFills() {
        hostTokens();
        assertThat(run(FIRST.length(), 2)).isEqualTo(FIRST);
        scene.host(20);
        assertThat(run(3, 2)).as("settling").isEqualTo("ooo");
        scene.host(20);
        assertThat(run(3, 2)).as("once more").isEqualTo("ooo");
        assertThat(run(3 + 4 + 10 + 4, 2)).matches("o+");
        assertThat(run(3, 2)).as("the rules' turn").isEqualTo("rrr");
    }

    @Test
    void inFlightTokensReturnBeforeTheRulesGoOn() {
        hostTokens();
        assertThat(run(FIRST.length() + 3, 0.5)).isEqualTo(FIRST + "ooo");
        var inFlight = scene.inFlight(20);
        assertThat(run(2, 0.5)).isEqualTo("ll");
        scene.committer.endInFlight(inFlight.key());
        assertThat(run(2, 0.5)).isEqualTo("rr");
    }

    @Test
    void stepsThatLeaveTheHostAloneDoNotCount() {
        scene.gpu(9);
        assertThat(run(100, 2)).isEqualTo("r".repeat(100));
    }

    @Test
    void stepsOfWhichNothingWasMadeDoNotCount() {
        hostTokens();
        for (int i = 0; i < 100; i++) {
            contest.draft(scene.state, new Decision());
        }
        contest.completed(new GpuOnly(BUDGET, Preemption.SWAP).draft(scene.state, new Decision()), 1);
        assertThat(run(FIRST.length() + 1, 2)).isEqualTo(FIRST + "o");
    }
}
