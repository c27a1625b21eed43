package dev.tandem.engine.strategy.paper;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import dev.tandem.engine.request.LatencyTargets;
import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Decision;
import dev.tandem.engine.schedule.Policy;
import dev.tandem.engine.schedule.Scene;
import dev.tandem.engine.schedule.StepDraft;
import dev.tandem.engine.strategy.Asymmetric;
import dev.tandem.engine.strategy.Deviation;
import dev.tandem.engine.strategy.Deviations;
import dev.tandem.engine.strategy.Fidelity;
import dev.tandem.engine.strategy.Pipeline;
import dev.tandem.engine.strategy.StepPredictor;
import dev.tandem.engine.strategy.TestProfile;
import dev.tandem.engine.strategy.TierRules;
import dev.tandem.engine.strategy.select.Strategy;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/**
 * NEO §3.2, step by step. {@link TestProfile}: T_l = 10 up to 100 rows and 0.1 per row beyond, T_ga = 0.01 per token,
 * T_ca = 0.1 per token, prefill attention 0.001 per pair, 2 layers.
 */
class NeoTest {
    private static final Budget BUDGET = new Budget(400, 20, 400);

    /** Tandem's rules with whole prompts and tokens that all hide. */
    private static final Deviations RULES = Deviations.of(Fidelity.TANDEM)
            .with(Deviation.CHUNKED_PREFILL, false)
            .with(Deviation.WAITS_FOR_HOST_TOKENS, false);

    private static Pipeline pipeline(Budget budget, TierRules rules) {
        return new Pipeline(budget, new StepPredictor(TestProfile.model(), true, 0), rules, RULES, true);
    }

    private static Pipeline chunked(Budget budget) {
        return new Pipeline(
                budget,
                new StepPredictor(TestProfile.model(), true, 0),
                TierRules.neutral(),
                RULES.with(Deviation.CHUNKED_PREFILL, true),
                true);
    }

    private static Asymmetric waitingForTokens() {
        StepPredictor predictor = new StepPredictor(TestProfile.model(), true, 0);
        return new Asymmetric(
                "asymmetric",
                new Pipeline(
                        BUDGET,
                        predictor,
                        TierRules.neutral(),
                        RULES.with(Deviation.WAITS_FOR_HOST_TOKENS, true),
                        true));
    }

    private static Asymmetric steps1To5(Scene scene) {
        return new Asymmetric("asymmetric", pipeline(scene.budget(), TierRules.neutral()));
    }

    private static Neo neo(Scene scene) {
        return new Neo(
                pipeline(scene.budget(), TierRules.neutral()),
                new StepPredictor(TestProfile.model(), true, 0),
                Optional.empty());
    }

    @Test
    void step1BothBatchesBeginEmpty() {
        assertThat(new Scene(10, 10, BUDGET).draft(steps1To5(new Scene(1, 1, BUDGET))))
                .isEmpty();
    }

    @Test
    void step2EveryGpuDecodeIsInBatch0() {
        Scene scene = new Scene(20, 20, BUDGET);
        scene.gpu(9);
        scene.gpu(5);
        assertThat(scene.draft(steps1To5(scene))).isEqualTo("[r0 r1]");
    }

    @Test
    void step2SwapsOutUntilTheNewKvFits() {
        // both hold 2 blocks and need a third, and one is free: the younger one leaves and decodes on the CPU,
        // where T_ca1 = 0.1 * 9 <= T_l0 = 10
        Scene scene = new Scene(5, 20, BUDGET).limit(40);
        scene.gpu(9);
        scene.gpu(9);
        assertThat(scene.draft(steps1To5(scene))).isEqualTo("r1>host [r0] [r1cpu]");
    }

    @Test
    void step2DropsWhatTheHostCannotHold() {
        Scene scene = new Scene(5, 2, BUDGET).limit(40);
        scene.gpu(9);
        scene.gpu(9);
        assertThat(scene.draft(steps1To5(scene))).isEqualTo("r1 dropped [r0]");
    }

    @Test
    void step2SwapsInWhenThereIsAmpleSpace() {
        // r1 needs 3 blocks and one stays free for each GPU sequence to grow by: 3 + 1 <= 10 - 3
        Scene scene = new Scene(10, 20, BUDGET);
        scene.gpu(10);
        scene.host(10);
        assertThat(scene.draft(steps1To5(scene))).isEqualTo("r1>gpu [r0 r1]");
    }

    @Test
    void step2LeavesTheHostAloneWhenSpaceIsScarce() {
        // 3 + 1 > 6 - 3
        Scene scene = new Scene(6, 20, BUDGET).limit(60);
        scene.gpu(10);
        scene.host(10);
        assertThat(scene.draft(steps1To5(scene))).isEqualTo("[r0] [r1cpu]");
    }

    @Test
    void step3KeepsNewKvOnTheGpu() {
        Scene scene = new Scene(20, 20, BUDGET);
        scene.gpu(9);
        scene.waiting(16);
        assertThat(scene.draft(steps1To5(scene))).isEqualTo("[r0 r1+16]");
    }

    @Test
    void step3SwapsNewKvOutWhenTheGpuIsFull() {
        // T_ca1 = 15 for 150 tokens of host KV needs T_l0 >= 15. Without the prompt's 200 rows T_l0 would be 10, so
        // step
        // 5 keeps the prompt; with it T_l0 is 20.1
        Scene scene = new Scene(4, 100, BUDGET).limit(300);
        scene.gpu(13);
        scene.host(150);
        scene.waiting(200);
        assertThat(scene.draft(steps1To5(scene))).isEqualTo("[r0 r2+200host] [r1cpu]");
    }

    @Test
    void step3EndsAtTheBudget() {
        Scene scene = new Scene(200, 20, BUDGET);
        scene.gpu(9);
        scene.waiting(300);
        scene.waiting(100);
        assertThat(scene.draft(steps1To5(scene))).as("1 + 300 + 100 > 400 rows").isEqualTo("[r0 r1+300]");
    }

    @Test
    void step3LeavesRowsToTheHostWithChunkedPrefill() {
        // T_l0 = 10 + 0.1 * (397 - 100) = 39.7 hides all host tokens
        Scene scene = new Scene(3, 200, BUDGET).limit(420);
        scene.gpu(9);
        scene.host(60);
        scene.host(60);
        scene.waiting(399);
        assertThat(Scene.text(chunked(BUDGET).draft(scene.state))).isEqualTo("[r0 r3+397host] [r1cpu r2cpu]");
    }

    @Test
    void step3LeavesAtMostAnEighthOfTheRowsToTheHost() {
        // of 16 rows two are left for three host tokens, which are too long for the GPU. T_l0 = 10 hides r1, and T_l1 +
        // T_ga0 = 10.18 hides r2
        Budget small = new Budget(16, 16, 16);
        Scene scene = new Scene(20, 200, small).limit(60);
        scene.gpu(9);
        scene.limit(200);
        for (int i = 0; i < 3; i++) {
            scene.host(100);
        }
        scene.limit(60);
        scene.waiting(40);
        assertThat(Scene.text(chunked(small).draft(scene.state))).isEqualTo("[r0 r4+13 r2cpu] [r1cpu]");
    }

    @Test
    void step4FillsBatch1ThenBatch0ThenWaits() {
        // T_l0 = 10 hides 100 tokens of context in batch 1: two sequences of 41; a third would make it 12.3. Batch 0
        // hides (T_l1 + T_ga0) / 0.1 = 100.9 tokens: two more. The fifth waits for the next step
        Scene scene = new Scene(3, 200, BUDGET).limit(60);
        scene.gpu(9);
        for (int i = 0; i < 5; i++) {
            scene.host(41);
        }
        assertThat(scene.draft(steps1To5(scene))).isEqualTo("[r0 r3cpu r4cpu] [r1cpu r2cpu]");
    }

    /**
     * r1 fills batch 1 so far that r2 does not hide there. With 200 tokens of the GPU, T_l1 + T_ga0 = 12: 119 tokens of
     * the CPU take 11.9, and 121 take 12.1.
     */
    @ParameterizedTest
    @CsvSource({"119, [r0 r2cpu] [r1cpu]", "121, [r0] [r1cpu]"})
    void step4HidesBatch0BehindTheAttentionOfTheGpu(int context, String expected) {
        Scene scene = new Scene(50, 200, BUDGET).limit(400);
        scene.gpu(200);
        scene.host(9);
        scene.host(context);
        assertThat(scene.draft(steps1To5(scene))).isEqualTo(expected);
    }

    /** As above; the prompt of 60 has 1830 pairs, so T_l1 + T_ga0 = 10 + 0.09 + 1.83 = 11.92. */
    @ParameterizedTest
    @CsvSource({"119, [r0 r3+60 r2cpu] [r1cpu]", "120, [r0 r3+60] [r1cpu]"})
    void step4HidesBatch0BehindTheAttentionOfPrompts(int context, String expected) {
        Scene scene = new Scene(20, 200, BUDGET).limit(80);
        scene.gpu(9);
        scene.limit(400);
        scene.host(85);
        scene.host(context);
        scene.limit(80);
        scene.waiting(60);
        assertThat(scene.draft(steps1To5(scene))).isEqualTo(expected);
    }

    @Test
    void step4SubtractsTheTripToTheCpu() {
        // T_l0 = 10 hides 10 + 2 * 3 - 4 = 12: three sequences of 39. The step takes 2 * (3 + 10 + 3 + 10 + 0.09) =
        // 52.18. With a trip of 7 it hides 9: two sequences
        Scene scene = new Scene(3, 200, BUDGET).limit(60);
        scene.gpu(9);
        for (int i = 0; i < 3; i++) {
            scene.host(39);
        }
        StepPredictor near = new StepPredictor(TestProfile.withStages(3, 4), true, 0).ofLayers();
        StepDraft draft = new Pipeline(BUDGET, near, TierRules.neutral(), RULES, true).draft(scene.state);
        assertThat(Scene.text(draft)).isEqualTo("[r0] [r1cpu r2cpu r3cpu]");
        assertThat(near.of(draft)).isCloseTo(52.18, within(1e-6));
        StepPredictor far = new StepPredictor(TestProfile.withStages(3, 7), true, 0).ofLayers();
        assertThat(far.of(draft)).as("T_ca1 = 11.7 behind 9").isCloseTo(52.18 + 2 * 2.7, within(1e-6));
        assertThat(Scene.text(new Pipeline(BUDGET, far, TierRules.neutral(), RULES, true).draft(scene.state)))
                .isEqualTo("[r0 r3cpu] [r1cpu r2cpu]");
        StepPredictor beyond = new StepPredictor(TestProfile.withStages(3, 20), true, 0).ofLayers();
        assertThat(beyond.of(draft))
                .as("11.7 and 4 more; batch 0 makes no trip")
                .isCloseTo(52.18 + 2 * 15.7, within(1e-6));
    }

    @Test
    void step4LimitsTheCpuToTheTimeOfALayer() {
        // each batch hides T_l + 2 * 3 = 16, but both together hide only the GPU's time for a layer: 3 + 10 + 3 + 10 +
        // 0.09. A sequence of 52 takes 5.2: three and two make 26, and a sixth would make 31.2
        Scene scene = new Scene(3, 200, BUDGET).limit(60);
        scene.gpu(9);
        for (int i = 0; i < 6; i++) {
            scene.host(52);
        }
        StepPredictor stages = new StepPredictor(TestProfile.withStages(3, 0), true, 0).ofLayers();
        StepDraft draft = new Pipeline(BUDGET, stages, TierRules.neutral(), RULES, true).draft(scene.state);
        assertThat(Scene.text(draft)).isEqualTo("[r0 r4cpu r5cpu] [r1cpu r2cpu r3cpu]");
        assertThat(stages.of(draft)).isCloseTo(52.18, within(1e-6));
        StepPredictor shorter = new StepPredictor(TestProfile.withStages(2, 0), true, 0).ofLayers();
        assertThat(shorter.of(draft)).as("26 of the CPU, 24.09 of the GPU").isCloseTo(52, within(1e-6));
    }

    @Test
    void theGpuWaitsForTokensThatRaiseTheRate() {
        // r1 hides behind T_l0 = 10, r2 behind T_l1 + T_ga0 = 10.09: 3 requests in 2 * 20.09. r3 makes batch 0's path
        // 10 + 12 = 22, and in batch 1 it would be 22.09: 4 requests in 44. With r4 in batch 1 the CPU needs 24: 5 in
        // 48.
        // With r5 it would need 30: 6 in 60
        Scene scene = new Scene(3, 200, BUDGET).limit(80);
        scene.gpu(9);
        for (int i = 0; i < 5; i++) {
            scene.host(60);
        }
        assertThat(scene.draft(steps1To5(scene))).isEqualTo("[r0 r2cpu] [r1cpu]");
        StepDraft draft = waitingForTokens().draft(scene.state, new Decision());
        assertThat(Scene.text(draft)).isEqualTo("[r0 r2cpu r3cpu] [r1cpu r4cpu]");
        assertThat(new StepPredictor(TestProfile.model(), true, 0).of(draft)).isCloseTo(48, within(1e-6));
    }

    @Test
    void theGpuWaitsForNoTokenWhereNoneHides() {
        Scene scene = new Scene(3, 200, BUDGET).limit(200);
        scene.gpu(9);
        scene.host(120);
        assertThat(scene.draft(waitingForTokens())).isEqualTo("[r0]");
    }

    @Test
    void step4SkipsALongRequestAndTakesTheNext() {
        Scene scene = new Scene(3, 200, BUDGET).limit(200);
        scene.gpu(9);
        scene.host(120);
        scene.host(90);
        assertThat(scene.draft(steps1To5(scene))).as("12 > 10 and 12 > 10.09").isEqualTo("[r0] [r2cpu]");
    }

    @Test
    void step4TakesThoseThatHaveWaitedLongestForAToken() {
        // one sequence of 60 hides behind T_l0 = 10, one behind T_l1 + T_ga0; the third waits, and is first in the next
        // step
        Scene scene = new Scene(10, 100, BUDGET).limit(200);
        scene.gpu(10);
        List<Sequence> host = List.of(scene.host(60), scene.host(60), scene.host(60));
        assertThat(scene.draft(steps1To5(scene))).isEqualTo("[r0 r2cpu] [r1cpu]");
        for (Sequence sequence : host.subList(0, 2)) {
            sequence.advance(1);
            sequence.append(0, 5);
        }
        assertThat(scene.draft(steps1To5(scene))).isEqualTo("[r0 r1cpu] [r3cpu]");
    }

    @Test
    void step5PostponesPromptsThatTheCpuDoesNotNeed() {
        // as in step 3, but T_ca1 = 8 hides behind T_l0 = 10 without the prompt
        Scene scene = new Scene(4, 100, BUDGET).limit(300);
        scene.gpu(13);
        scene.host(80);
        scene.waiting(200);
        assertThat(scene.draft(steps1To5(scene))).isEqualTo("[r0] [r1cpu]");
    }

    @Test
    void step5KeepsPromptsWhileTheCpuIsIdle() {
        Scene scene = new Scene(4, 100, BUDGET).limit(300);
        scene.gpu(13);
        scene.host(40);
        scene.waiting(200);
        assertThat(scene.draft(steps1To5(scene))).as("T_ca1 = 4 < T_l0 / 2 = 5").isEqualTo("[r0 r2+200host] [r1cpu]");
    }

    @Test
    void step5KeepsAPromptWhoseFirstTokenIsUrgent() {
        Scene scene = new Scene(4, 100, BUDGET).limit(300);
        scene.gpu(13);
        scene.host(80);
        scene.waiting(200, new LatencyTargets(1_000, 0));
        scene.committer.now(501);
        assertThat(scene.draft(steps1To5(scene))).isEqualTo("[r0 r2+200host] [r1cpu]");
        scene.committer.now(500);
        assertThat(scene.draft(steps1To5(scene))).isEqualTo("[r0] [r1cpu]");
    }

    @Test
    void step6TakesThePipelineWhereItDoesMoreRequestsPerSecond() {
        // pipeline: 2 * (max(10, 0.9) + max(10 + 0.09, 0)) = 40.18 for 2 requests: 0.0498/s
        // gpu-only: 2 * (10 + 0.09) = 20.18 for 1: 0.0496/s
        Scene scene = new Scene(3, 20, BUDGET).limit(40);
        scene.gpu(9);
        scene.host(9);
        assertThat(scene.draft(neo(scene))).isEqualTo("[r0] [r1cpu]");
    }

    @Test
    void step6TakesGpuOnlyWhereTheSecondPassCostsMore() {
        // two on the GPU: pipeline 2 * (10 + 10.18) = 40.36 for 3: 0.0743/s; gpu-only 20.36 for 2: 0.0982/s
        Scene scene = new Scene(6, 20, BUDGET).limit(40);
        scene.gpu(9);
        scene.gpu(9);
        scene.host(9);
        Decision why = new Decision();
        assertThat(Scene.text(neo(scene).draft(scene.state, why))).isEqualTo("[r0 r1]");
        assertThat(why.candidates()).hasSize(2);
        assertThat(why.reason()).startsWith("neo: gpu-only is predicted to do 0.1 requests/s");
    }

    /**
     * The GPU decodes 9 tokens of context, and gpu-only does 1 request in 20.18, 0.0496/s. Two sub-batches take 40.18,
     * so they need 1.99 requests: as printed one host token of any context is enough. By the deviation a context of 6
     * or 3 counts 6/9 or 3/9, and one of 7 counts 1, because 7/9 is not below 0.7.
     */
    @ParameterizedTest
    @CsvSource({
        "neo, PRINTED, 6, 1, [r0] [r1cpu]",
        "neo, ARTIFACT, 6, 1, [r0] [r1cpu]",
        "adaptive-pipelining, TANDEM, 6, 1, [r0]",
        "adaptive-pipelining, TANDEM, 7, 1, [r0] [r1cpu]",
        "adaptive-pipelining, TANDEM, 3, 2, [r0]",
        "adaptive-pipelining, TANDEM, 3, 3, [r0] [r1cpu r2cpu r3cpu]",
        "adaptive-pipelining, TANDEM, 18, 1, [r0] [r1cpu]"
    })
    void step6CountsAHostTokenByItsContextWhereThatIsShort(
            String strategy, Fidelity fidelity, int context, int hostTokens, String expected) {
        Scene scene = new Scene(3, 20, BUDGET).limit(40);
        scene.gpu(9);
        for (int i = 0; i < hostTokens; i++) {
            scene.host(context);
        }
        assertThat(scene.draft(policy(Strategy.of(strategy), BUDGET, fidelity))).isEqualTo(expected);
    }

    /**
     * A step has 90 prompt tokens. They are a tenth of a prompt of 900. Then gpu-only does 1.1 requests in 2 * (10 +
     * 0.09 + 4.095) = 28.37, 0.0388/s, and the pipeline 2.1 in 48.37, 0.0434/s. They are all of a prompt of 90. Then
     * gpu-only does 2 requests, 0.0705/s, and the pipeline 3, 0.0620/s.
     */
    @ParameterizedTest
    @CsvSource({"900, [r0 r2+90host] [r1cpu]", "90, [r0 r2+90host]"})
    void step6CountsTheFractionOfAPromptAsRequests(int prompt, String expected) {
        Budget chunks = new Budget(1000, 20, 90);
        Scene scene = new Scene(3, 400, chunks).limit(40);
        scene.gpu(9);
        scene.host(9);
        scene.limit(1000);
        scene.waiting(prompt);
        Neo neo = new Neo(chunked(chunks), new StepPredictor(TestProfile.model(), true, 0), Optional.empty());
        assertThat(scene.draft(neo)).isEqualTo(expected);
    }

    @Test
    void fastDecodePlusKeepsNoKvOnTheGpu() {
        Scene scene = new Scene(50, 200, BUDGET).limit(100);
        Pipeline pipeline = new Pipeline(
                BUDGET, new StepPredictor(TestProfile.model(), true, 0), TierRules.neutral(), RULES, false);
        scene.gpu(9);
        scene.host(30);
        scene.waiting(120);
        // r0 is complete in GPU blocks, so it leaves. Batch 1 has 12 - 3 free, batch 0 10 + 7.3: r0 goes to batch 0
        assertThat(scene.draft(new Asymmetric("fastdecode-plus", pipeline)))
                .isEqualTo("r0>host [r2+120host r0cpu] [r1cpu]");
    }

    @Test
    void fastDecodePlusTakesEveryTokenWhetherOrNotItHides() {
        // §5.3: without KV on the GPU there is no choice. T_ca1 = 30 behind nothing; then batch 0 has 10 free
        Scene scene = new Scene(50, 200, BUDGET).limit(400);
        Pipeline pipeline = new Pipeline(
                BUDGET, new StepPredictor(TestProfile.model(), true, 0), TierRules.neutral(), RULES, false);
        scene.host(300);
        scene.host(90);
        scene.host(30);
        assertThat(Scene.text(pipeline.draft(scene.state))).isEqualTo("[r1cpu r2cpu] [r0cpu]");
    }

    private static Policy policy(Strategy strategy, Budget budget, Fidelity fidelity) {
        return strategy.policy(
                Strategy.Options.builder(budget)
                        .deviations(strategy.deviations(fidelity))
                        .build(),
                TestProfile.model());
    }

    @Test
    void asPrintedStep4TakesHostRequestsInOrderOfArrival() {
        Scene scene = new Scene(10, 100, BUDGET).limit(200);
        scene.gpu(10);
        List<Sequence> host = List.of(scene.host(60), scene.host(60), scene.host(60));
        for (Sequence sequence : host.subList(0, 2)) {
            sequence.advance(1);
            sequence.append(0, 5);
        }
        assertThat(scene.draft(steps1To5(scene))).isEqualTo("[r0 r1cpu] [r3cpu]");
        Deviations printed = Deviations.of(Fidelity.PRINTED);
        StepPredictor predictor = new StepPredictor(TestProfile.model(), true, 0);
        Pipeline pipeline = new Pipeline(BUDGET, predictor, TierRules.neutral(), printed, true);
        assertThat(Scene.text(pipeline.draft(scene.state))).isEqualTo("[r0 r2cpu] [r1cpu]");
    }

    /** Step 5 with three prompts for the host and T_ca1 = 4: T_l0 = 10 hides it without any of them. */
    @ParameterizedTest
    @CsvSource({
        "none, [r0] [r1cpu]",
        "128-tokens, [r0 r2+100host r3+100host] [r1cpu]",
        "idle-cpu, [r0 r2+100host r3+100host r4+100host] [r1cpu]"
    })
    void step5KeepsPromptsByItsRule(String rule, String expected) {
        Scene scene = new Scene(4, 200, BUDGET).limit(300);
        scene.gpu(13);
        scene.host(40);
        for (int i = 0; i < 3; i++) {
            scene.waiting(100);
        }
        Pipeline pipeline = new Pipeline(
                BUDGET,
                new StepPredictor(TestProfile.model(), true, 0),
                TierRules.neutral(),
                RULES.with(Deviation.STEP_5_KEEPS, rule),
                true);
        assertThat(Scene.text(pipeline.draft(scene.state))).isEqualTo(expected);
    }

    @Test
    void theArtifactsStep4AlternatesBySlackAndSkipsWhatIsNoShorterThanAMisfit() {
        // r1 in batch 1 leaves it 6, and batch 0 has 10.09: r2 in batch 0 leaves 6.09. r3 with 9 fits neither, r4 with
        // 9.1 is not tried, r5 goes to batch 0
        Scene scene = new Scene(3, 400, BUDGET).limit(200);
        scene.gpu(9);
        for (int length : new int[] {40, 40, 90, 91, 20}) {
            scene.host(length);
        }
        Pipeline pipeline = new Pipeline(
                BUDGET,
                new StepPredictor(TestProfile.model(), true, 0),
                TierRules.neutral(),
                Deviations.of(Fidelity.ARTIFACT),
                true);
        assertThat(Scene.text(pipeline.draft(scene.state))).isEqualTo("[r0 r2cpu r5cpu] [r1cpu]");
    }

    @Test
    void theArtifactsStep6LeavesOutPromptsForTheHost() {
        Scene scene = new Scene(4, 200, BUDGET).limit(300);
        scene.gpu(13);
        for (int i = 0; i < 3; i++) {
            scene.waiting(100);
        }
        assertThat(scene.draft(policy(Strategy.NEO, BUDGET, Fidelity.ARTIFACT)))
                .as("201 rows are at least 128, and 101 are not")
                .isEqualTo("[r0 r1+100host r2+100host]");
    }

    @Test
    void asPrintedNoForecastKeepsARequestOut() {
        Scene scene = new Scene(20, 200, BUDGET).limit(76);
        for (int i = 0; i < 16; i++) {
            Sequence ended = scene.gpu(4);
            for (int token = 0; token < 60; token++) {
                ended.append(0, 0);
            }
            scene.committer.remove(ended);
        }
        scene.gpu(9);
        scene.waiting(30);
        assertThat(scene.draft(policy(Strategy.NEO, BUDGET, Fidelity.PRINTED))).isEqualTo("[r16 r17+30]");
        assertThat(scene.draft(steps1To5(scene)))
                .as("61 more tokens for each do not fit 20 blocks of 4")
                .isNotEqualTo("[r16 r17+30]");
    }

    @Test
    void swiftLlmGivesWholePromptsStepsOfTheirOwn() {
        Scene scene = new Scene(49, 0, BUDGET).limit(180);
        scene.gpu(9);
        scene.waiting(100);
        scene.waiting(90);
        assertThat(scene.draft(policy(Strategy.SWIFTLLM, BUDGET, Fidelity.PRINTED)))
                .as("25 blocks of 47 for the first; the second needs 23")
                .isEqualTo("[r1+100]");
        Scene full = new Scene(28, 0, BUDGET).limit(400);
        full.gpu(9);
        full.gpu(9);
        full.waiting(100);
        full.waiting(4);
        assertThat(full.draft(policy(Strategy.SWIFTLLM, BUDGET, Fidelity.PRINTED)))
                .as("the first prompt does not fit, and no later one starts before it")
                .isEqualTo("[r0 r1]");
    }

    @Test
    void aPapersNameIsOnlyForItsRules() {
        assertThat(Strategy.NEO.fidelity()).isEqualTo(Fidelity.PRINTED);
        assertThat(Strategy.ADAPTIVE.fidelity()).isEqualTo(Fidelity.TANDEM);
        assertThatThrownBy(() -> Strategy.NEO.deviations(Fidelity.TANDEM))
                .hasMessage("--strategy neo is a paper's and has no --fidelity tandem; use --strategy"
                        + " adaptive-pipelining, or --fidelity printed or artifact");
        assertThatThrownBy(() -> Strategy.ADAPTIVE.deviations(Fidelity.PRINTED))
                .hasMessageContaining("--strategy adaptive is Tandem's own and has no --fidelity printed");
        Deviations printed = Strategy.NEO.deviations(Fidelity.PRINTED);
        assertThat(Strategy.NEO.with(printed, "step-5-keeps=idle-cpu").changed())
                .containsExactly(Map.entry("step-5-keeps", "idle-cpu"));
        assertThatThrownBy(() -> Strategy.NEO.with(printed, "measured-arms=true"))
                .hasMessageContaining("--deviation measured-arms changes nothing in --strategy neo");
        assertThatThrownBy(() -> Strategy.NEO.with(printed, "step-5-keeps"))
                .hasMessageContaining("has no value; use NAME=VALUE");
    }
}
