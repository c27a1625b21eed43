package dev.tandem.engine.strategy.select;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.engine.cost.CostModel;
import dev.tandem.engine.request.LatencyTargets;
import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Decision;
import dev.tandem.engine.schedule.Policy;
import dev.tandem.engine.schedule.Preemption;
import dev.tandem.engine.schedule.Scene;
import dev.tandem.engine.schedule.StepDraft;
import dev.tandem.engine.strategy.GpuOnly;
import dev.tandem.engine.strategy.StepPredictor;
import dev.tandem.engine.strategy.TestProfile;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.BooleanSupplier;
import org.junit.jupiter.api.Test;

/**
 * Arms are measured against each other. Steps as text: r is a step of the first arm, o of the second, l a step with
 * which the second arm is left, and p a step of the third, where there is one. The steps of the arms differ only in
 * their time.
 */
class ArmTrialTest {
    private static final Budget BUDGET = new Budget(400, 20, 400);
    /** Windows of 4 steps, max 5 windows in which the host may fill, 10 steps between trials. */
    private static final SelectorLimits LIMITS = new SelectorLimits(0, 3, 4, 5, 5, 10);
    /** A window with more host tokens than before, and one with equally many, after which the host no longer fills. */
    private static final int WARM_UP = 4 + 4;

    private static final int RUN = 2 * 4;
    private static final String FIRST = "r".repeat(WARM_UP + RUN);

    private final CostModel cost = TestProfile.model();
    private final StepPredictor predictor = new StepPredictor(cost, true, 0);
    private final Policy step = Strategy.ASYNC_OVERLAP.policy(Strategy.Options.of(BUDGET), cost);
    private final Scene scene = new Scene(3, 100, BUDGET).limit(60);
    private final StringBuilder makers = new StringBuilder();
    private final Arm rules = new Arm("rules", named('r'), Set.of());
    private final Arm overlap =
            new Arm("overlap", named('o'), Set.of(), Optional.empty(), Optional.of(named('l')), Optional.empty());
    private final Arm pipelining = new Arm("pipelining", named('p'), Set.of());
    private StrategySelector selector = selector(rules, overlap);

    private StrategySelector selector(Arm... arms) {
        return new StrategySelector(
                List.of(arms),
                Optional.empty(),
                predictor,
                new GoodputRanking(predictor, LatencyTargets.NONE),
                LIMITS,
                () -> Double.NaN);
    }

    private Policy named(char name) {
        return (state, why) -> {
            makers.append(name);
            return step.draft(state, why);
        };
    }

    private String run(int steps, double overlapSpeed) {
        return run(steps, Map.of('o', overlapSpeed));
    }

    /** @param speeds of the arms other than the first; 1 where none is given */
    private String run(int steps, Map<Character, Double> speeds) {
        makers.setLength(0);
        for (int i = 0; i < steps; i++) {
            StepDraft draft = selector.draft(scene.state, new Decision());
            char maker = makers.charAt(makers.length() - 1);
            selector.completed(draft, predictor.of(draft) / speeds.getOrDefault(maker, 1.0));
        }
        return makers.toString();
    }

    private List<Sequence> hostTokens() {
        scene.gpu(9);
        return List.of(scene.host(20), scene.host(20));
    }

    @Test
    void theArmThatDoesMoreGoesOn() {
        hostTokens();
        String won = "o".repeat(WARM_UP + RUN + 12);
        assertThat(run(200, 2)).startsWith(FIRST + won + "r".repeat(WARM_UP) + "o".repeat(WARM_UP + 40) + "r");
    }

    @Test
    void aSmallAdvantageIsNotEnough() {
        hostTokens();
        String tried = "o".repeat(WARM_UP + RUN);
        assertThat(run(120, 1.01)).startsWith(FIRST + tried + "r".repeat(WARM_UP + 40) + tried + "r");
    }

    @Test
    void aMuchSlowerArmIsStoppedWhileItWarmsUp() {
        hostTokens();
        assertThat(run(100, 0.5)).startsWith(FIRST + "o".repeat(WARM_UP) + "r".repeat(WARM_UP + 40) + "o");
    }

    @Test
    void anArmWarmsUpAsLongAsTheHostFills() {
        hostTokens();
        assertThat(run(FIRST.length(), 2)).isEqualTo(FIRST);
        for (int window = 1; window < LIMITS.warmUps(); window++) {
            assertThat(run(4, 2)).isEqualTo("oooo");
            assertThat(selector.phase()).as("window %d", window).isEqualTo(Phase.WARM_UP);
            scene.host(20);
        }
        run(4, 2);
        assertThat(selector.phase()).as("after the max number of windows").isEqualTo(Phase.RUN);
    }

    @Test
    void inFlightTokensReturnBeforeTheOtherArmGoesOn() {
        hostTokens();
        assertThat(run(FIRST.length() + WARM_UP, 0.5)).isEqualTo(FIRST + "o".repeat(WARM_UP));
        var inFlight = scene.inFlight(20);
        assertThat(run(2, 0.5)).isEqualTo("ll");
        scene.committer.endInFlight(inFlight.key());
        assertThat(run(2, 0.5)).isEqualTo("rr");
    }

    @Test
    void allOtherArmsAreTriedBeforeThePause() {
        hostTokens();
        selector = selector(rules, overlap, pipelining);
        String fails = "r".repeat(WARM_UP + RUN);
        String pause = "r".repeat(WARM_UP + 40);
        String o = "o".repeat(WARM_UP);
        String p = "p".repeat(WARM_UP);
        assertThat(run(220, Map.of('o', 0.5, 'p', 0.5)))
                .startsWith(fails + o + fails + p + pause + o + fails + p + "r");
    }

    @Test
    void anArmThatWinsIsComparedWithTheNextOne() {
        hostTokens();
        selector = selector(rules, overlap, pipelining);
        String o = "o".repeat(WARM_UP + RUN + 4);
        String p = "p".repeat(WARM_UP + RUN + 12);
        assertThat(run(220, Map.of('o', 2.0, 'p', 4.0)))
                .as("the next trial after the pause is of the first arm")
                .startsWith(FIRST + o + p + "r".repeat(WARM_UP) + "p");
    }

    /** Two arms that make the same steps, b, while tokens in flight would miss their target. */
    private void withTarget(BooleanSupplier keepsTarget) {
        Optional<Arm.BeyondTarget> beyond =
                Optional.of(new Arm.BeyondTarget(state -> keepsTarget.getAsBoolean(), named('b')));
        selector = selector(
                new Arm("rules", named('r'), Set.of(), Optional.empty(), Optional.empty(), beyond),
                new Arm("overlap", named('o'), Set.of(), Optional.empty(), Optional.empty(), beyond));
    }

    @Test
    void noneIsTriedWhileAllMakeTheSameSteps() {
        hostTokens();
        AtomicBoolean keepsTarget = new AtomicBoolean();
        withTarget(keepsTarget::get);
        for (int step = 0; step < 100; step++) {
            assertThat(run(1, 2)).isEqualTo("b");
            assertThat(selector.isTrial()).as("step %d", step).isFalse();
        }
        keepsTarget.set(true);
        assertThat(run(20, 2)).contains("o");
    }

    @Test
    void aTrialIsLostWhereTokensInFlightMissTheirTarget() {
        hostTokens();
        AtomicBoolean keepsTarget = new AtomicBoolean(true);
        withTarget(keepsTarget::get);
        assertThat(run(FIRST.length() + 1, 2)).isEqualTo(FIRST + "o");
        keepsTarget.set(false);
        assertThat(run(3, 2)).isEqualTo("bbb");
        assertThat(selector.isTrial()).isFalse();
        keepsTarget.set(true);
        assertThat(run(WARM_UP + 40 + 1, 2)).isEqualTo("r".repeat(WARM_UP + 40) + "o");
    }

    @Test
    void theTrialOfAnArmThatLeavesTheHostEmptyEndsWhileRequestsWait() {
        List<Sequence> host = hostTokens();
        GpuOnly gpuOnly = new GpuOnly(BUDGET, Preemption.SWAP);
        Arm withoutHost = new Arm(
                "without the host",
                (state, why) -> {
                    makers.append('p');
                    return gpuOnly.draft(state, why);
                },
                Set.of());
        selector = selector(rules, withoutHost);
        assertThat(run(FIRST.length(), Map.of())).isEqualTo(FIRST);
        host.forEach(scene.committer::remove);
        assertThat(run(30, Map.of('p', 0.1))).as("no request waits").isEqualTo("p".repeat(30));
        scene.waiting(20);
        String window = "p".repeat(4);
        assertThat(run(WARM_UP + RUN, Map.of('p', 0.1))).startsWith(window + "p".repeat(RUN) + "r");
    }

    @Test
    void stepsWithoutTheHostDoNotCount() {
        scene.gpu(9);
        assertThat(run(100, 2)).isEqualTo("r".repeat(100));
    }

    @Test
    void droppedDraftsDoNotCount() {
        hostTokens();
        for (int i = 0; i < 100; i++) {
            selector.draft(scene.state, new Decision());
        }
        selector.completed(new GpuOnly(BUDGET, Preemption.SWAP).draft(scene.state, new Decision()), 1);
        assertThat(run(FIRST.length() + 1, 2)).isEqualTo(FIRST + "o");
    }
}
