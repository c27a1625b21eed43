package dev.tandem.engine.strategy.paper;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Decision;
import dev.tandem.engine.schedule.PolicyScheduler;
import dev.tandem.engine.schedule.Scene;
import dev.tandem.engine.schedule.Shape;
import dev.tandem.engine.schedule.StepDraft;
import dev.tandem.engine.step.StepPlan;
import dev.tandem.engine.step.StepResult;
import dev.tandem.engine.step.StepTimes;
import dev.tandem.engine.strategy.Deviation;
import dev.tandem.engine.strategy.Deviations;
import dev.tandem.engine.strategy.Fidelity;
import dev.tandem.engine.strategy.InFlightLimits;
import dev.tandem.engine.strategy.StepPredictor;
import dev.tandem.engine.strategy.TestProfile;
import dev.tandem.engine.strategy.select.Strategy;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/**
 * APEX §3.2 and §3.4. {@link TestProfile}: T_glinear = 10 up to 100 rows, N_G = 100 tokens per second, N_C = 10, 2
 * layers.
 */
class ApexTest {
    private static final Budget BUDGET = new Budget(600, 20, 600);

    private static Apex apex(double minCpuRatio) {
        return apex(minCpuRatio, InFlightLimits.UNLIMITED);
    }

    private static Apex apex(double minCpuRatio, InFlightLimits inFlight) {
        return apex(
                Deviations.of(Fidelity.PRINTED).with(Deviation.MIN_CPU_RATIO, String.valueOf(minCpuRatio)), inFlight);
    }

    private static Apex apex(Deviations deviations, InFlightLimits inFlight) {
        var options = Strategy.Options.builder(BUDGET)
                .deviations(deviations)
                .inFlight(inFlight)
                .build();
        return (Apex) Strategy.APEX.policy(options, TestProfile.model());
    }

    private static StepDraft draft(Scene scene, double minCpuRatio, Decision why) {
        return apex(minCpuRatio).draft(scene.state, why);
    }

    /** A full GPU of one sequence with {@code gpuTokens}, and one host sequence of 40. */
    private static Scene decodes(int gpuTokens) {
        Scene scene = new Scene((gpuTokens + 3) / 4, 400, BUDGET).limit(1000);
        scene.gpu(gpuTokens);
        scene.host(40);
        return scene;
    }

    @Test
    void algorithm1WithoutCpuRequestsIsGpuOnly() {
        Scene scene = new Scene(50, 50, BUDGET);
        scene.gpu(20);
        scene.waiting(30);
        StepDraft draft = draft(scene, 0, new Decision());
        assertThat(draft.shape()).isEqualTo(Shape.GPU_ONLY);
        assertThat(Scene.text(draft)).isEqualTo("[r0 r1+30]");
    }

    /** Rule 1: a prompt that GPU memory cannot hold is a CPU request, whether or not the CPU's attention hides. */
    @Test
    void algorithm1WithoutCpuRequestsStartsPromptsOnTheHost() {
        Scene scene = new Scene(25, 400, BUDGET).limit(1000);
        scene.gpu(97);
        scene.waiting(30);
        StepDraft draft = draft(scene, 0, new Decision());
        assertThat(draft.shape()).isEqualTo(Shape.GPU_ONLY);
        assertThat(draft.load(0).prefillOffloadTokens()).as(Scene.text(draft)).isEqualTo(30);
    }

    @Test
    void algorithm1WithoutARequestThatFitsThePipelineIsAsync() {
        // T_ca = 12 hides neither behind T_l0 = 10 nor behind T_l1 + T_ga0 = 10 + 1
        Scene scene = new Scene(25, 400, BUDGET).limit(1000);
        scene.gpu(97);
        scene.host(121);
        Decision why = new Decision();
        StepDraft draft = draft(scene, 0, why);
        assertThat(Scene.text(draft)).isEqualTo("[r0] admit r1");
        assertThat(draft.shape()).isEqualTo(Shape.ASYNC);
        assertThat(why.reason()).contains("no CPU request fits");
    }

    /**
     * (6) with T_l = 10, T_a = g / 100, N_G / N_C = 10: at g = 298, 20 / 2.98 + 3 + 0.298 = 10.009 > 10; at g = 300, 20
     * / 3 + 3 + 0.3 = 9.967 < 10.
     */
    @ParameterizedTest
    @CsvSource({"100, PIPELINE", "298, PIPELINE", "300, ASYNC", "900, ASYNC"})
    void algorithm2DecodesAlone(int gpuTokens, Shape expected) {
        Decision why = new Decision();
        assertThat(draft(decodes(gpuTokens), 0, why).shape()).isEqualTo(expected);
        assertThat(why.reason()).contains("inequality (6)");
    }

    /**
     * N_C counts a CPU token of batch 0. The only one, of 120, does not hide behind T_l0 = 10, but behind T_ga0 = 67.
     * At g = 6710, 20 / 67.1 + 3 + 6.71 = 10.008 > 10; at g = 6690, 20 / 66.9 + 3 + 6.69 = 9.989 < 10.
     */
    @ParameterizedTest
    @CsvSource({"6710, PIPELINE, [r0 r1cpu]", "6690, ASYNC, [r0] admit r1"})
    void algorithm2CountsCpuTokensOfBatch0(int gpuTokens, Shape expected, String text) {
        Scene scene = new Scene((gpuTokens + 3) / 4, 400, BUDGET).limit(7000);
        scene.gpu(gpuTokens);
        scene.limit(1000);
        scene.host(120);
        Decision why = new Decision();
        StepDraft draft = draft(scene, 0, why);
        assertThat(draft.shape()).as(why.reason()).isEqualTo(expected);
        assertThat(Scene.text(draft)).isEqualTo(text);
        assertThat(why.reason()).contains("inequality (6)");
    }

    /**
     * (8) with g = 100 GPU tokens: (100 + 10 T) / 11 > 100 where T = T_lp + T_ap + 11, so T_lp + T_ap > 89. A prompt of
     * 334 rows: 33.4 + 334 * 335 / 2000 = 89.3; one of 333: 33.3 + 55.6 = 88.9.
     */
    @ParameterizedTest
    @CsvSource({"334, PIPELINE", "333, ASYNC"})
    void algorithm2WithPrefills(int prompt, Shape expected) {
        // the GPU is full, so the prompt's KV goes to the host; step 5 keeps it: 12.1 hides behind T_l0 = 33, not 10
        Scene scene = new Scene(25, 400, BUDGET).limit(1000);
        scene.gpu(100);
        scene.host(121);
        scene.waiting(prompt);
        Decision why = new Decision();
        assertThat(draft(scene, 0, why).shape()).as(why.reason()).isEqualTo(expected);
        assertThat(why.reason()).contains("inequality (8)");
    }

    @Test
    void inequality6IsInequality5() {
        for (double gpuRate : new double[] {1, 10, 75, 100, 1000}) {
            for (double attention : new double[] {0.1, 1, 5, 30}) {
                var t = new Inequalities.Times(10, attention, 0, 0, gpuRate, 10);
                assertThat(Inequalities.decodesGain(t))
                        .as("N_G %s, T_gatt %s", gpuRate, attention)
                        .isEqualTo(Inequalities.decodePipeThroughput(t) > Inequalities.decodeGpuThroughput(t));
            }
        }
    }

    @Test
    void equationsByHand() {
        var t = new Inequalities.Times(10, 4, 30, 5, 100, 7);
        assertThat(Inequalities.gpuOnlyTime(t)).as("(1)").isEqualTo(14);
        assertThat(Inequalities.decodeCycle(t)).as("(2)").isEqualTo(24);
        assertThat(Inequalities.gpuTokens(t)).as("(3)").isEqualTo(400);
        assertThat(Inequalities.decodePipeThroughput(t))
                .as("(5) left: (400 + 7 * 24) / 24")
                .isEqualTo(568.0 / 24);
        assertThat(Inequalities.decodeGpuThroughput(t))
                .as("(5) right: 400 / 14")
                .isEqualTo(400.0 / 14);
        assertThat(Inequalities.mixedCycle(t)).as("(7)").isEqualTo(49);
        assertThat(Inequalities.mixedPipeThroughput(t))
                .as("(8) left: (400 + 7 * 49) / 14")
                .isEqualTo(743.0 / 14);
        assertThat(Inequalities.mixedGpuThroughput(t)).as("(8) right").isEqualTo(100);
    }

    @Test
    void rule4PartialProgressFinishesInTheDecodeOnlyBatch() {
        // the prompt is on the GPU, T_l0 = 10 hides 2 in-flight tokens of 40, and (8) holds without GPU decodes
        Scene scene = new Scene(100, 400, BUDGET).limit(1000);
        scene.inFlight(40);
        scene.inFlight(40);
        scene.waiting(50);
        StepDraft draft = draft(scene, 0, new Decision());
        assertThat(draft.shape()).isEqualTo(Shape.PIPELINE);
        assertThat(Scene.text(draft)).isEqualTo("[r2+50] resume r0 resume r1");
        StepPlan plan = scene.committer.commit(draft);
        assertThat(plan.resume()).containsExactly(0L, 1L);
        assertThat(plan.subBatches())
                .as("the tokens that finish have a sub-batch, which takes turns with the prompt's")
                .extracting(batch -> batch.chunks().size())
                .containsExactly(1, 0);
    }

    @Test
    void theDecisionLogCountsTokensInFlight() {
        Scene scene = new Scene(100, 400, BUDGET).limit(1000);
        scene.inFlight(40);
        scene.inFlight(40);
        scene.inFlight(80);
        scene.waiting(50);
        PolicyScheduler scheduler = PolicyScheduler.of(apex(Deviations.of(Fidelity.PRINTED), InFlightLimits.UNLIMITED));
        long step = scheduler.plan(scene.state, scene.committer).step();
        StepResult result = new StepResult(step, List.of(), List.of(), List.of(), StepTimes.NONE);
        assertThat(scheduler.completed(result, 1).toString())
                .startsWith("step " + step + ": asymmetric, predicted ")
                .contains(", 3 in flight, 2 finish: apex: inequality (8) holds");
    }

    /**
     * (8) holds, and the executor cannot complete the in-flight token, which an asymmetric step of 201 would move by
     * one layer of two. A gpu-only step with one decode takes 22, and up to 99 prompt tokens beside it add their
     * attention alone, 112 for all pairs of the prompt. Async overlap leaves the prompt for later: 22 * (1 + 1 / 2) /
     * 22 = 1.50. Once the in-flight token has returned, an asymmetric step would have ten tokens with eight host
     * tokens: ten steps of gpu-only with 34 prompt tokens in each take 22 * 10 + 112, so it would do 332 / 201 = 1.65.
     * With one host token it would have three, whose steps have 112 prompt tokens and take 24.4 and attention: 0.92.
     * Tokens return from 1.05 times 1.50 on, so with a prompt of 353 and not with one of 356.
     */
    @ParameterizedTest
    @CsvSource({
        "1, 120, 334, 0.92, 1.50, async-overlap",
        "8, 15, 334, 1.65, 1.50, they return",
        "8, 15, 353, 1.58, 1.50, they return",
        "8, 15, 356, 1.57, 1.50, async-overlap"
    })
    void inFlightTokensReturnWhereThePipelineWouldClearlyDoMoreWithThem(
            int hostTokens, int context, int prompt, String returned, String now, String outcome) {
        Scene scene = new Scene(25, 400, BUDGET).limit(1000);
        scene.gpu(100);
        for (int i = 0; i < hostTokens; i++) {
            scene.host(context);
        }
        scene.inFlight(20);
        scene.waiting(prompt);
        Decision why = new Decision();
        Deviations compares = Deviations.of(Fidelity.PRINTED)
                .with(Deviation.COMPARES_WITH_ASYNC, true)
                .with(Deviation.STEP_5_KEEPS, "idle-cpu")
                .with(Deviation.LIMITED_HOST_PROMPTS, true);
        StepDraft draft = apex(compares, new InFlightLimits(100, 100, false)).draft(scene.state, why);
        assertThat(draft.shape()).as(why.reason()).isEqualTo(Shape.ASYNC);
        assertThat(why.reason()).contains(returned).contains(now).endsWith(outcome);
        assertThat(draft.admissions())
                .as("the CPU keeps up with no second token of 120, and no token of 15 is admitted while they return")
                .isEmpty();
    }

    /**
     * (6) holds at g = 298, where gpu-only takes 25.96 and two sub-batches 45.96. With one host token these do 2 *
     * 25.96 / 45.96 = 1.13, and async overlap 1 + 1 / 2. Of eleven tokens with 20 of context, five hide behind T_l0 =
     * 10 and six behind T_l1 + T_ga0 = 12.98: 12 * 25.96 / 45.96 = 6.78. In flight, all of them advance by one layer of
     * two per step: 1 + 11 / 2.
     */
    @ParameterizedTest
    @CsvSource({"1, 40, 1.13, 1.50, ASYNC", "11, 20, 6.78, 6.50, PIPELINE"})
    void hostTokensGoInFlightWhereThatWouldDoMoreThanThePipeline(
            int hostTokens, int context, String pipelined, String overlapped, Shape expected) {
        Scene scene = new Scene(75, 400, BUDGET).limit(1000);
        scene.gpu(298);
        for (int i = 0; i < hostTokens; i++) {
            scene.host(context);
        }
        Decision why = new Decision();
        Deviations compares = Deviations.of(Fidelity.PRINTED).with(Deviation.COMPARES_WITH_ASYNC, true);
        StepDraft draft = apex(compares, InFlightLimits.UNLIMITED).draft(scene.state, why);
        assertThat(draft.shape()).as(why.reason()).isEqualTo(expected);
        assertThat(why.reason()).contains(pipelined).contains(overlapped);
        assertThat(draft(scene, 0, new Decision()).shape()).as("as printed").isEqualTo(Shape.PIPELINE);
    }

    @Test
    void rule4WaitsWhenTheCpuWouldNotKeepUp() {
        Scene scene = new Scene(100, 400, BUDGET).limit(1000);
        scene.inFlight(80);
        scene.inFlight(80);
        scene.waiting(50);
        Deviations all = Deviations.of(Fidelity.PRINTED).with(Deviation.PARTIAL_PROGRESS, "all-or-none");
        StepDraft draft = apex(all, InFlightLimits.UNLIMITED).draft(scene.state, new Decision());
        assertThat(draft.shape()).as("0.1 * 160 > T_l0 = 10").isEqualTo(Shape.ASYNC);
        assertThat(draft.resumed()).isEmpty();
        assertThat(Scene.text(draft(scene, 0, new Decision())))
                .as("as printed, the one that hides finishes: 0.1 * 80 <= 10")
                .isEqualTo("[r2+50] resume r0");
    }

    @Test
    void rule4ComesBeforeTokensThatBeginAtLayer0() {
        // T_l0 = 10 hides the 5 of the in-flight token or the 6 of the other, which the GPU cannot hold, and not both
        Scene scene = new Scene(12, 400, BUDGET).limit(48);
        scene.limit(1000).inFlight(50);
        scene.limit(48).waiting(40);
        scene.limit(1000).host(60);
        assertThat(Scene.text(draft(scene, 0, new Decision()))).isEqualTo("[r1+40] resume r0");
    }

    @Test
    void aCohortIsBilledAtTheLayerWhereItStands() {
        // 90 rows and 60 in flight: T_l = 10 at one layer, 10 + 0.1 * 50 at the other; spread, each has 30 more
        Scene scene = new Scene(400, 1000, new Budget(600, 200, 600)).limit(1000);
        for (int i = 0; i < 90; i++) {
            scene.gpu(9);
        }
        for (int i = 0; i < 60; i++) {
            scene.inFlight(9);
        }
        StepPredictor predictor = new StepPredictor(TestProfile.model(), true, 0);
        StepDraft draft = apex(0).async().draft(scene.state, new Decision());
        assertThat(draft.isCohort()).isTrue();
        assertThat(draft.slots()).isEqualTo(60);
        assertThat(predictor.of(draft)).isCloseTo(2 * (10 + 8.1) + 5, within(1e-6));
    }

    @Test
    void section42DoesNotUseTheCpuForFewRequests() {
        Scene scene = decodes(100);
        Decision why = new Decision();
        assertThat(draft(scene, 8, why).shape()).isEqualTo(Shape.GPU_ONLY);
        assertThat(why.reason()).contains("§4.2");
        assertThat(draft(scene, 1, new Decision()).shape())
                .as("one CPU request per GPU request is enough")
                .isEqualTo(Shape.PIPELINE);
    }

    @Test
    void section42StartsPromptsOnTheHostUntilCpuRequestsAreEnough() {
        Scene scene = decodes(100);
        scene.waiting(30);
        StepDraft draft = draft(scene, 8, new Decision());
        assertThat(draft.load(0).prefillOffloadTokens()).as(Scene.text(draft)).isEqualTo(30);
        assertThat(draft.load(0).cpuRows() + draft.load(1).cpuRows()).isZero();
        assertThat(draft.admissions()).isEmpty();
    }

    @Test
    void section31KeepsOnlyRunningSequencesInGpuMemory() {
        Scene scene = new Scene(30, 400, BUDGET).limit(1000);
        for (int i = 0; i < 5; i++) {
            scene.gpu(17 + i);
        }
        StepDraft draft = draft(scene, 0, new Decision());
        assertThat(draft.load(0).gpuRows())
                .as("every sequence in GPU blocks is in the step")
                .isEqualTo(draft.gpuSequences());
    }
}
