package dev.tandem.engine.strategy;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.engine.cost.CostModel;
import dev.tandem.engine.executor.CheapRows;
import dev.tandem.engine.executor.PiggybackedPrefill;
import dev.tandem.engine.request.LatencyTargets;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Decision;
import dev.tandem.engine.schedule.Load;
import dev.tandem.engine.schedule.Scene;
import dev.tandem.engine.schedule.Shape;
import dev.tandem.engine.schedule.StepDraft;
import java.util.List;
import org.junit.jupiter.api.Test;

/**
 * When tokens begin to be in flight. A step of decodes takes 2 x (10 + 0.1) s and a token waits for two, 40.4 s; with a
 * prompt of 80 tokens a step takes 2 x 3.24 s more, and a token waits for 53.4 s.
 */
class AsyncOverlapTest {
    private static final Budget BUDGET = new Budget(128, 32, 128);

    private static final Budget LARGE = new Budget(20_000, 2000, 20_000);

    private final Scene scene = new Scene(40, 100, BUDGET);

    private static AsyncOverlap overlap(long targetSeconds) {
        return new AsyncOverlap(
                BUDGET,
                new StepPredictor(TestProfile.model(), true, 0),
                new TierRules(new LatencyTargets(0, targetSeconds * 1_000_000_000), 0, 0),
                Deviations.of(Fidelity.TANDEM),
                InFlightLimits.UNLIMITED,
                PiggybackedPrefill.NONE);
    }

    private boolean keepsTargetAfterAStep(AsyncOverlap overlap) {
        overlap.completed(overlap.draft(scene.state, new Decision()), 0);
        return overlap.keepsTarget(scene.state);
    }

    @Test
    void tokensWaitUntilPromptsNoLongerMakeStepsLong() {
        scene.gpu(10);
        scene.waiting(80);
        assertThat(keepsTargetAfterAStep(overlap(53))).isFalse(); // 53.4 s
        assertThat(keepsTargetAfterAStep(overlap(54))).isTrue();
    }

    @Test
    void inFlightTokensGoOnWhilePromptsMakeStepsLong() {
        scene.gpu(10);
        scene.inFlight(10);
        scene.waiting(80);
        assertThat(keepsTargetAfterAStep(overlap(60))).isTrue();
        assertThat(keepsTargetAfterAStep(overlap(49))).isTrue(); // 53.4 s are less than 1.1 of 49
        assertThat(keepsTargetAfterAStep(overlap(48))).isFalse();
    }

    private boolean keepsTargetAfterSteps(AsyncOverlap overlap, int steps) {
        for (int i = 1; i < steps; i++) {
            overlap.completed(overlap.draft(scene.state, new Decision()), 0);
        }
        return keepsTargetAfterAStep(overlap);
    }

    @Test
    void aWaveOfPromptsDoesNotStopTokensInFlight() {
        AsyncOverlap overlap = overlap(41);
        scene.gpu(10);
        scene.inFlight(10);
        assertThat(keepsTargetAfterAStep(overlap)).isTrue();
        scene.waiting(80);
        assertThat(keepsTargetAfterSteps(overlap, 100)).isTrue(); // a mean of 41.7 s
        assertThat(keepsTargetAfterSteps(overlap, 1000)).isFalse();
    }

    @Test
    void afterAStepWithoutTokensInFlightTheNewestStepsCount() {
        AsyncOverlap overlap = overlap(49);
        scene.gpu(10);
        scene.inFlight(10);
        scene.waiting(80);
        assertThat(keepsTargetAfterAStep(overlap)).isTrue();
        Scene without = new Scene(40, 100, BUDGET);
        without.gpu(10);
        without.waiting(80);
        overlap.completed(overlap.draft(without.state, new Decision()), 0);
        assertThat(overlap.keepsTarget(without.state)).isFalse();
    }

    @Test
    void withoutPromptsTokensEnterFlightWithinTheTarget() {
        scene.gpu(10);
        assertThat(keepsTargetAfterAStep(overlap(41))).isTrue(); // 40.4 s
        assertThat(keepsTargetAfterAStep(overlap(40))).isFalse();
    }

    /** A step with one token in flight, eight decodes, and 40 waiting prompts that fit the host alone. */
    private static Load besideOneInFlight(int outputs, TierRules rules) {
        Budget budget = new Budget(4000, 100, 4000);
        Scene scene = new Scene(26, 2000, budget).limit(100 + outputs);
        for (int i = 0; i < 8; i++) {
            scene.gpu(8);
        }
        scene.inFlight(8);
        for (int i = 0; i < 40; i++) {
            scene.waiting(100);
        }
        StepPredictor predictor = new StepPredictor(TestProfile.withCpu(1000), true, 0);
        Deviations deviations = Deviations.of(Fidelity.TANDEM);
        InFlightLimits limits = new InFlightLimits(64, 64, true);
        AsyncOverlap overlap = new AsyncOverlap(budget, predictor, rules, deviations, limits, CheapRows.upTo(64));
        return overlap.draft(scene.state, new Decision()).load(0);
    }

    private static int rows(int outputs) {
        return besideOneInFlight(outputs, TierRules.neutral()).rows();
    }

    private static boolean promptsJoin(double targetSeconds) {
        TierRules rules = new TierRules(new LatencyTargets(0, Math.round(targetSeconds * 1e9)), 0, 0);
        return besideOneInFlight(100, rules).prefillOffloadTokens() > 0;
    }

    @Test
    void promptsJoinTheHostUpToTheWholeTarget() {
        assertThat(promptsJoin(43)).isTrue(); // 42.6 s are more than 0.9 of 43
        assertThat(promptsJoin(42)).isFalse();
    }

    @Test
    void promptsForTheHostArePiggybackedWhereAllCanBe() {
        assertThat(rows(100)).as("one prompt token per output token").isEqualTo(64 - 8);
        assertThat(rows(10)).as("ten prompt tokens per output token").isGreaterThan(64);
    }

    /** Rows beyond those that are piggybacked would make the step longer than one of gpu-only. */
    @Test
    void promptsLeaveSlotsToTokensThatAreAboutToBeInFlight() {
        Budget budget = new Budget(4000, 100, 4000);
        Scene scene = new Scene(26, 2000, budget).limit(200);
        for (int i = 0; i < 8; i++) {
            scene.gpu(8);
        }
        scene.host(8);
        scene.host(8);
        for (int i = 0; i < 40; i++) {
            scene.waiting(100);
        }
        StepPredictor predictor = new StepPredictor(TestProfile.withCpu(1000), true, 0);
        InFlightLimits limits = new InFlightLimits(64, 64, true);
        Deviations deviations = Deviations.of(Fidelity.TANDEM);
        AsyncOverlap overlap =
                new AsyncOverlap(budget, predictor, TierRules.neutral(), deviations, limits, CheapRows.upTo(64));
        for (StepDraft draft :
                List.of(overlap.draft(scene.state, new Decision()), overlap.draftAsIfInFlight(scene.state))) {
            assertThat(draft.admissions()).hasSize(2);
            assertThat(draft.slots()).isEqualTo(8);
            assertThat(draft.load(0).rows()).isEqualTo(64 - 8);
        }
    }

    /** Steps of 20 s and more; the CPU attends for 0.1 s per token of context. */
    private static AsyncOverlap overlap(Fidelity fidelity, InFlightLimits limits) {
        StepPredictor predictor = new StepPredictor(TestProfile.model(), true, 0);
        return new AsyncOverlap(
                LARGE, predictor, TierRules.neutral(), Deviations.of(fidelity), limits, PiggybackedPrefill.NONE);
    }

    private static AsyncOverlap overlap() {
        return overlap(Fidelity.TANDEM, new InFlightLimits(300, 2000, true));
    }

    /** A GPU without room for host sequences, and a host with room for many. */
    private static Scene fullGpu() {
        return new Scene(0, 10_000, LARGE);
    }

    private static void host(Scene scene, int sequences, int length) {
        for (int i = 0; i < sequences; i++) {
            scene.host(length);
        }
    }

    private static void inFlight(Scene scene, int sequences, int length) {
        for (int i = 0; i < sequences; i++) {
            scene.inFlight(length);
        }
    }

    @Test
    void tokensAreAdmittedWhileTheCpuKeepsUp() {
        Scene scene = fullGpu();
        host(scene, 10, 50);
        StepDraft draft = overlap().draft(scene.state, new Decision());
        assertThat(draft.admissions()).as("4 x 5 s in a step of 20 s").hasSize(4);
        inFlight(scene, 3, 50);
        draft = overlap().draft(scene.state, new Decision());
        assertThat(draft.admissions()).as("3 are in flight").hasSize(1);
    }

    @Test
    void oneTokenIsAdmittedHoweverLongItsContext() {
        Scene scene = fullGpu();
        host(scene, 2, 1000);
        assertThat(overlap().draft(scene.state, new Decision()).admissions()).hasSize(1);
    }

    @Test
    void anEqualPartOfAllHostTokensIsAdmittedPerLayer() {
        Scene scene = fullGpu();
        host(scene, 21, 2);
        inFlight(scene, 10, 2);
        assertThat(overlap().draft(scene.state, new Decision()).admissions())
                .as("half of 31, because there are two layers")
                .hasSize(16);
    }

    @Test
    void limitsOfTheExecutorAreKept() {
        Scene scene = fullGpu();
        host(scene, 40, 2);
        inFlight(scene, 4, 2);
        AsyncOverlap slots = overlap(Fidelity.TANDEM, new InFlightLimits(12, 100, true));
        assertThat(slots.draft(scene.state, new Decision()).admissions()).hasSize(12);
        AsyncOverlap tokens = overlap(Fidelity.TANDEM, new InFlightLimits(100, 7, true));
        assertThat(tokens.draft(scene.state, new Decision()).admissions()).hasSize(3);
    }

    @Test
    void slotsLeaveHeadroomForTokensThatReturnUnevenly() {
        Scene scene = fullGpu();
        inFlight(scene, 26, 2);
        StepDraft draft = overlap().draft(scene.state, new Decision());
        assertThat(draft.slots()).as("1.25 x 26 / 2 = 16.25").isEqualTo(32);
        assertThat(draft.isCohort()).isFalse();
        inFlight(scene, 474, 2);
        StepDraft goingOn = new StepDraft(scene.state, LARGE);
        overlap().goOn(goingOn);
        assertThat(goingOn.slots())
                .as("1.25 x 500 / 2 is more than the largest bucket")
                .isEqualTo(256);
        assertThat(goingOn.shape()).isEqualTo(Shape.ASYNC);
        AsyncOverlap few = overlap(Fidelity.TANDEM, new InFlightLimits(100, 2000, true));
        few.goOn(goingOn);
        assertThat(goingOn.slots()).as("the executor's").isEqualTo(100);
    }

    @Test
    void asPrintedAllTokensEnterTogetherAndTheNextOnesWait() {
        Scene scene = fullGpu();
        host(scene, 9, 2);
        AsyncOverlap printed = overlap(Fidelity.PRINTED, InFlightLimits.UNLIMITED);
        StepDraft first = printed.draft(scene.state, new Decision());
        assertThat(first.admissions()).hasSize(9);
        assertThat(first.isCohort()).isTrue();
        assertThat(first.slots()).isEqualTo(9);
        inFlight(scene, 5, 2);
        StepDraft later = printed.draft(scene.state, new Decision());
        assertThat(later.admissions()).isEmpty();
        assertThat(later.slots()).isEqualTo(5);
        assertThat(later.isCohort()).isTrue();
        Decision why = new Decision();
        StepDraft draining = printed.draining(scene.state, why);
        assertThat(draining.isCohort()).isTrue();
        assertThat(draining.slots()).isEqualTo(5);
        assertThat(why.reason()).contains("5 in-flight tokens return");
    }

    @Test
    void theDecisionLogCountsAStepsTokens() {
        Scene scene = fullGpu();
        host(scene, 2, 2);
        inFlight(scene, 3, 2);
        Decision why = new Decision();
        StepDraft draft = overlap().draft(scene.state, why);
        assertThat(draft.shape()).isEqualTo(Shape.ASYNC);
        assertThat(why.reason()).contains("5 in-flight tokens, 2 of them admitted now");
        assertThat(overlap().draftAsIfInFlight(scene.state).shape()).isEqualTo(Shape.ASYNC);
    }

    /** A GPU with room for some sequences, one prompt that waits, and a host of so many tokens. */
    private static StepDraft besideAPrompt(int prompt, int... hostContexts) {
        Scene scene = new Scene(2000, 2000, LARGE);
        for (int i = 0; i < hostContexts.length; i++) {
            if (i % 2 == 0) {
                scene.host(hostContexts[i]);
            } else {
                scene.inFlight(hostContexts[i]);
            }
        }
        scene.waiting(prompt);
        return overlap().draft(scene.state, new Decision());
    }

    @Test
    void hostSequencesReturnBesidePromptsOnlyWhereTheCpuFallsBehind() {
        assertThat(besideAPrompt(10, 100, 100).ins())
                .as("2 x 10 s in a step of 20 s")
                .isEmpty();
        assertThat(besideAPrompt(10, 101, 100).ins()).isNotEmpty();
        assertThat(besideAPrompt(10, 100, 101).ins()).isNotEmpty();
    }

    @Test
    void promptsStartOnTheHostWhileTheCpuWouldKeepUp() {
        Scene scene = fullGpu();
        scene.host(100);
        scene.waiting(100);
        scene.waiting(1);
        StepDraft draft = overlap().draft(scene.state, new Decision());
        assertThat(draft.load(0).prefillOffloadTokens()).as("10 s and 10 s").isEqualTo(101);
        Scene longer = fullGpu();
        longer.host(100);
        longer.waiting(101);
        assertThat(overlap().draft(longer.state, new Decision()).load(0).prefillOffloadTokens())
                .isZero();
    }

    /** Tokens of prompts of these lengths, all of which wait, that the CPU would attend for. */
    private static long offloadable(Scene scene, Budget budget, CostModel cost, int hostContext, int... prompts) {
        for (int prompt : prompts) {
            scene.waiting(prompt);
        }
        StepPredictor predictor = new StepPredictor(cost, true, 0);
        Deviations deviations = Deviations.of(Fidelity.TANDEM);
        AsyncOverlap overlap = new AsyncOverlap(
                budget, predictor, TierRules.neutral(), deviations, InFlightLimits.UNLIMITED, PiggybackedPrefill.NONE);
        return overlap.offloadablePrefillTokens(new StepDraft(scene.state, budget), 1, hostContext);
    }

    @Test
    void promptsCountWhileTheCpuWouldKeepUp() {
        CostModel cost = TestProfile.model();
        assertThat(offloadable(fullGpu(), LARGE, cost, 90, 60, 50, 1))
                .as("200 tokens take a step of 20 s")
                .isEqualTo(110);
        assertThat(offloadable(fullGpu(), LARGE, cost, 91, 60, 50, 1)).isEqualTo(60);
    }

    @Test
    void promptsThatFitTheGpuDoNotCount() {
        Scene scene = new Scene(10, 1000, LARGE);
        assertThat(offloadable(scene, LARGE, TestProfile.model(), 0, 20, 24)).isEqualTo(24);
    }

    @Test
    void promptsCountWhileTheHostHasRoom() {
        CostModel cost = TestProfile.withCpu(100);
        Scene scene = new Scene(0, 12, LARGE);
        assertThat(offloadable(scene, LARGE, cost, 0, 18, 18, 18)).isEqualTo(36);
        Budget few = new Budget(20_000, 4, 20_000);
        Scene withOne = new Scene(3, 1000, few);
        withOne.gpu(10);
        assertThat(offloadable(withOne, few, cost, 0, 18, 18, 18))
                .as("4 sequences, of which one is on the GPU and one on the host")
                .isEqualTo(36);
    }

    @Test
    void countingStopsAtTheTokensOfAStep() {
        CostModel cost = TestProfile.withCpu(100);
        Budget budget = new Budget(50, 20, 50);
        assertThat(offloadable(new Scene(0, 1000, budget), budget, cost, 0, 50, 50, 50))
                .isEqualTo(100);
        assertThat(offloadable(new Scene(0, 1000, budget), budget, cost, 0, 51, 50, 50))
                .isEqualTo(51);
    }
}
