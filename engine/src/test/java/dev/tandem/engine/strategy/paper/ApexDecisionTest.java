package dev.tandem.engine.strategy.paper;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.tandem.engine.request.LatencyTargets;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Decision;
import dev.tandem.engine.schedule.Decision.Candidate;
import dev.tandem.engine.schedule.Scene;
import dev.tandem.engine.schedule.Shape;
import dev.tandem.engine.schedule.StepDraft;
import dev.tandem.engine.strategy.Deviation;
import dev.tandem.engine.strategy.Deviations;
import dev.tandem.engine.strategy.Fidelity;
import dev.tandem.engine.strategy.InFlightLimits;
import dev.tandem.engine.strategy.TestProfile;
import dev.tandem.engine.strategy.TierRules;
import dev.tandem.engine.strategy.select.Strategy;
import org.assertj.core.groups.Tuple;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** What APEX's decisions count, compare and say. {@link TestProfile} has the times: T_l = 10, N_G = 100, N_C = 10. */
class ApexDecisionTest {
    private static final Budget BUDGET = new Budget(600, 20, 600);
    private static final Budget MANY = new Budget(600, 200, 600);
    private static final Deviations PRINTED = Deviations.of(Fidelity.PRINTED);

    private static StepDraft draft(Scene scene, Deviations deviations, Decision why) {
        return draft(scene, deviations, InFlightLimits.UNLIMITED, why);
    }

    private static StepDraft draft(Scene scene, Deviations deviations, InFlightLimits inFlight, Decision why) {
        var options = Strategy.Options.builder(BUDGET)
                .deviations(deviations)
                .inFlight(inFlight)
                .build();
        return Strategy.APEX.policy(options, TestProfile.model()).draft(scene.state, why);
    }

    /** A GPU that one sequence of 97 tokens fills. */
    private static Scene fullGpu() {
        Scene scene = new Scene(25, 400, BUDGET).limit(1000);
        scene.gpu(97);
        return scene;
    }

    @Test
    void requestsOnTheHostAndInFlightAreBothCpuRequests() {
        Scene scene = fullGpu();
        scene.host(40);
        scene.inFlight(40);
        Decision why = new Decision();
        draft(scene, PRINTED, why);
        assertThat(why.reason()).doesNotContain("no CPU requests").contains("inequality (6)");
    }

    @Test
    void withoutCpuRequestsItSaysSo() {
        Decision why = new Decision();
        draft(fullGpu(), PRINTED, why);
        assertThat(why.reason()).isEqualTo("apex: no CPU requests, so gpu-only");
    }

    @Test
    void aRequestThatLeavesTheGpuIsACpuRequestBesideThoseOnTheHost() {
        // both hold 2 blocks and need a third, and one is free: the younger one leaves
        Scene scene = new Scene(5, 100, BUDGET).limit(40);
        scene.gpu(9);
        scene.gpu(9);
        scene.host(30);
        Decision why = new Decision();
        StepDraft draft = draft(scene, PRINTED, why);
        assertThat(draft.outs()).hasSize(1);
        assertThat(why.reason()).doesNotContain("no CPU requests");
    }

    @Test
    void theMinNumberOfCpuRequestsIsPerGpuRequest() {
        Scene scene = new Scene(25, 400, BUDGET).limit(1000);
        scene.gpu(48);
        scene.gpu(48);
        for (int i = 0; i < 15; i++) {
            scene.host(10);
        }
        Decision why = new Decision();
        draft(scene, PRINTED.with(Deviation.MIN_CPU_RATIO, "8.0"), why);
        assertThat(why.reason())
                .isEqualTo("apex: 15 CPU requests are fewer than 8.0 for each of 2 GPU requests, so gpu-only (§4.2)");
        scene.host(10);
        draft(scene, PRINTED.with(Deviation.MIN_CPU_RATIO, "8.0"), why);
        assertThat(why.reason()).as("16 are enough").doesNotContain("§4.2");
    }

    @Test
    void cpuTokensOfBothSubBatchesAreScheduledRequests() {
        // T_l0 = 10 hides the first in sub-batch 1, T_l1 + T_ga0 = 10.97 hides the second in sub-batch 0
        Scene scene = fullGpu();
        scene.host(90);
        scene.host(90);
        Decision why = new Decision();
        draft(scene, PRINTED, why);
        assertThat(why.reason()).contains("inequality (6)");
    }

    @Test
    void resumedTokensAreScheduledRequestsToo() {
        // T_l0 = 10 hides the 4 of the in-flight token and the 5.2 of the other, which the GPU cannot hold
        Scene scene = new Scene(12, 400, BUDGET).limit(48);
        scene.limit(1000).inFlight(40);
        scene.limit(48).waiting(40);
        scene.limit(1000).host(52);
        Decision why = new Decision();
        StepDraft draft = draft(scene, PRINTED, why);
        assertThat(Scene.text(draft)).isEqualTo("[r1+40] [r2cpu] resume r0");
        assertThat(why.reason()).contains("inequality (8) holds");
    }

    @Test
    void anExecutorThatCannotCompleteTokensResumesNone() {
        Scene scene = new Scene(100, 400, BUDGET).limit(1000);
        scene.inFlight(40);
        scene.waiting(50);
        StepDraft draft = draft(scene, PRINTED, new InFlightLimits(100, 100, false), new Decision());
        assertThat(draft.resumed()).isEmpty();
    }

    /** An async step follows in all cases; the comparison is not printed. */
    @ParameterizedTest
    @CsvSource({
        "true, false, 'apex: no CPU request fits the pipeline, so async-overlap'",
        "false, true, 'apex: no CPU request fits the pipeline; async-overlap would do 1.50 of'",
        "true, true, 'apex: no CPU request fits the pipeline; asymmetric would do'"
    })
    void withoutARequestThatFitsAsyncOverlapIsCompared(boolean inFlight, boolean compares, String reason) {
        Scene scene = fullGpu();
        if (inFlight) {
            scene.inFlight(121);
        } else {
            scene.host(121);
        }
        Decision why = new Decision();
        draft(scene, PRINTED.with(Deviation.COMPARES_WITH_ASYNC, compares), why);
        assertThat(why.reason()).startsWith(reason);
    }

    @Test
    void aDecodeStepsCandidatesHaveTheCyclesOfOneAndTwo() {
        Scene scene = fullGpu();
        scene.host(40);
        Decision why = new Decision();
        draft(scene, PRINTED, why);
        assertThat(why.candidates())
                .extracting(Candidate::shape, Candidate::rows, Candidate::cpuRows)
                .containsExactly(Tuple.tuple(Shape.GPU_ONLY, 1, 0), Tuple.tuple(Shape.PIPELINE, 2, 1));
        assertThat(why.candidates().get(0).seconds()).as("(1): 10 + 0.97").isCloseTo(10.97, within(1e-6));
        assertThat(why.candidates().get(1).seconds()).as("(2): 2 * 10 + 0.97").isCloseTo(20.97, within(1e-6));
    }

    @Test
    void aMixedStepsCandidateHasTheCycleOfSeven() {
        Scene scene = new Scene(25, 400, BUDGET).limit(1000);
        scene.gpu(100);
        scene.host(121);
        scene.waiting(333);
        Decision why = new Decision();
        draft(scene, PRINTED, why);
        assertThat(why.candidates().get(1).seconds())
                .as("(7): 33.3 + 333 * 334 / 2000 + 10 + 1")
                .isCloseTo(33.3 + 55.611 + 11, within(1e-6));
    }

    @Test
    void aCpuTokenOfSubBatch0IsNoRowOfThePrefill() {
        // T_l0 = 33.4 hides the 30 of the first in sub-batch 1, T_l1 + T_ga0 = 11 the 10 of the second in sub-batch 0
        Scene scene = new Scene(25, 400, BUDGET).limit(1000);
        scene.gpu(100);
        scene.host(300);
        scene.host(100);
        scene.waiting(333);
        Decision why = new Decision();
        draft(scene, PRINTED, why);
        assertThat(why.candidates().get(1).rows()).isEqualTo(336);
        assertThat(why.candidates().get(1).cpuRows()).as("in sub-batch 1").isEqualTo(1);
        assertThat(why.candidates().get(1).seconds())
                .as("(7), as with one host token")
                .isCloseTo(33.3 + 55.611 + 11, within(1e-6));
    }

    @Test
    void theReasonNamesWhatWasChosen() {
        Scene scene = new Scene(75, 400, BUDGET).limit(1000);
        scene.gpu(298);
        scene.host(40);
        Decision why = new Decision();
        draft(scene, PRINTED, why);
        assertThat(why.reason())
                .as("(100 * 2.98 + 10 * 22.98) / 22.98 > 298 / 12.98")
                .endsWith("so asymmetric");
        draft(scene, PRINTED.with(Deviation.COMPARES_WITH_ASYNC, true), why);
        assertThat(why.reason())
                .startsWith("apex: inequality (6) holds; asymmetric does")
                .endsWith("with the host tokens in flight, so async-overlap");
    }

    private static Deviations spread(boolean compares) {
        return PRINTED.with(Deviation.COMPARES_WITH_ASYNC, compares).with(Deviation.SPREAD_HOST_TOKENS, true);
    }

    /**
     * A GPU that these rows fill. From 100 rows on T_l = 10 grows by 0.1 per row, and tokens in flight take 8 slots at
     * least. In a step a token in flight does half of one, of 2 layers.
     */
    private static Scene rows(int rows) {
        Scene scene = new Scene(rows, 400, MANY).limit(1000);
        for (int i = 0; i < rows; i++) {
            scene.gpu(3);
        }
        return scene;
    }

    @ParameterizedTest
    @CsvSource({"false, async-overlap, 1", "true, gpu-only, 0"})
    void hostTokensWaitWhereTheyWouldDoLessThanTheGpuAlone(boolean compares, String outcome, int admitted) {
        Scene scene = rows(100);
        scene.host(40);
        Decision why = new Decision();
        StepDraft draft = draft(scene, spread(compares), why);
        assertThat(why.reason()).startsWith("apex: inequality (6) fails").endsWith("so " + outcome);
        assertThat(draft.admissions()).hasSize(admitted);
        assertThat(draft.load(0).gpuRows()).isEqualTo(100);
    }

    /** No token that is decoded on the GPU will make room there, so host tokens go on. */
    @ParameterizedTest
    @CsvSource({"false, 1", "true, 0"})
    void noHostTokenWaitsForAGpuThatDecodesNothing(boolean inFlight, int admitted) {
        Scene scene = new Scene(12, 400, MANY).limit(48);
        scene.waiting(48);
        scene.limit(1000);
        if (inFlight) {
            scene.inFlight(400);
        } else {
            scene.host(400);
        }
        Decision why = new Decision();
        StepDraft draft = draft(scene, spread(true), why);
        assertThat(draft.load(0).gpuRows()).isZero();
        assertThat(why.reason()).contains("so async-overlap");
        assertThat(draft.admissions()).hasSize(admitted);
    }

    @ParameterizedTest
    @CsvSource({"false, async-overlap, 1", "true, they return for gpu-only, 0"})
    void inFlightTokensReturnWhereTheyDoLessThanTheGpuAlone(boolean compares, String outcome, int admitted) {
        Scene scene = rows(100);
        scene.inFlight(40);
        scene.host(40);
        Decision why = new Decision();
        StepDraft draft = draft(scene, spread(compares), why);
        assertThat(why.reason()).endsWith("so " + outcome);
        assertThat(draft.admissions()).hasSize(admitted);
    }

    /** T_l is 10.3 with slots: half a token beside 95 rows does less than the GPU alone, and four tokens do more. */
    @Test
    void inFlightTokensStayWhereAllHostTokensWouldDoMore() {
        Scene scene = rows(95);
        scene.inFlight(2);
        Decision why = new Decision();
        draft(scene, spread(true), why);
        assertThat(why.reason()).endsWith("so they return for gpu-only");
        for (int i = 0; i < 7; i++) {
            scene.host(2);
        }
        draft(scene, spread(true), why);
        assertThat(why.reason()).endsWith("so async-overlap");
    }

    /** With slots T_l is 10.3: half of each host token's work beside 95 rows does 1.01 with 6, and 1.03 with 10. */
    @ParameterizedTest
    @CsvSource({
        "2, 0, 0, gpu-only",
        "6, 0, 0, 'gpu-only (min 1.02, as the queue ends)'",
        "6, 60000, 0, async-overlap",
        "6, 0, 1000, async-overlap",
        "10, 0, 0, async-overlap"
    })
    void hostTokensOfAQueueThatEndsBeginForAClearGain(int hostTokens, int waiting, long seconds, String outcome) {
        Scene scene = rows(95);
        for (int i = 0; i < hostTokens; i++) {
            scene.host(2);
        }
        for (int i = 0; i < waiting; i++) {
            scene.waiting(2);
        }
        Decision why = new Decision();
        var options = Strategy.Options.builder(BUDGET)
                .deviations(spread(true))
                .rules(new TierRules(new LatencyTargets(0, seconds * 1_000_000_000L), 0, 0))
                .build();
        Strategy.APEX.policy(options, TestProfile.model()).draft(scene.state, why);
        assertThat(why.reason()).endsWith("with the host tokens in flight, so " + outcome);
    }

    /** Spread tokens are admitted beside those in flight, one per step here, unless these return. */
    @ParameterizedTest
    @CsvSource({"1, async-overlap", "16, they return"})
    void noTokenIsAdmittedWhileInFlightTokensReturn(int hostTokens, String outcome) {
        Scene scene = new Scene(25, 400, BUDGET).limit(1000);
        scene.gpu(100);
        for (int i = 0; i < hostTokens; i++) {
            scene.host(15);
        }
        scene.inFlight(20);
        scene.waiting(334);
        Decision why = new Decision();
        Deviations compares = PRINTED.with(Deviation.COMPARES_WITH_ASYNC, true)
                .with(Deviation.STEP_5_KEEPS, "idle-cpu")
                .with(Deviation.SPREAD_HOST_TOKENS, true)
                .with(Deviation.LIMITED_HOST_PROMPTS, true);
        StepDraft draft = draft(scene, compares, new InFlightLimits(1, 100, false), why);
        assertThat(why.reason()).endsWith(outcome);
        assertThat(draft.admissions().isEmpty()).as(Scene.text(draft)).isEqualTo(outcome.equals("they return"));
    }
}
