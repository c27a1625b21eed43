package dev.tandem.engine.strategy;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.tandem.engine.cost.CostModel;
import dev.tandem.engine.executor.CheapRows;
import dev.tandem.engine.executor.PiggybackedPrefill;
import dev.tandem.engine.request.LatencyTargets;
import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Decision;
import dev.tandem.engine.schedule.GpuKvLimit;
import dev.tandem.engine.schedule.PolicyScheduler;
import dev.tandem.engine.schedule.Preemption;
import dev.tandem.engine.schedule.Scene;
import dev.tandem.engine.schedule.StepDraft;
import dev.tandem.engine.step.StepResult;
import dev.tandem.engine.step.StepTimes;
import dev.tandem.engine.strategy.SpeedupEstimate.Kind;
import java.util.ArrayDeque;
import java.util.List;
import java.util.Queue;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/**
 * Which steps fill the host. {@link TestProfile}: T_l = 10 up to 100 rows, T_ca = 0.1 per token, 2 layers. Eight
 * sequences of 8 tokens fill the GPU.
 */
class HostGainTest {
    private static final Budget BUDGET = new Budget(400, 80, 400);
    private static final PiggybackedPrefill PIGGYBACKED = CheapRows.upTo(64);

    private static Scene fullGpu() {
        return fullGpu(200);
    }

    private static Scene fullGpu(int limit) {
        return scene(26, limit);
    }

    private static Scene scene(int gpuBlocks, int limit) {
        Scene scene = new Scene(gpuBlocks, 400, BUDGET).limit(limit);
        for (int i = 0; i < 8; i++) {
            scene.gpu(8);
        }
        return scene;
    }

    private static Pipeline pipeline(CostModel cost, PiggybackedPrefill piggybacking) {
        return pipeline(BUDGET, cost, piggybacking);
    }

    private static Pipeline pipeline(Budget budget, CostModel cost, PiggybackedPrefill piggybacking) {
        return new Pipeline(
                budget,
                new StepPredictor(cost, true, 0),
                TierRules.neutral(),
                Deviations.of(Fidelity.TANDEM),
                true,
                Set.of(Kind.HOST_TOKENS_IN_BOTH),
                piggybacking);
    }

    private static StepDraft draft(Scene scene, CostModel cost, PiggybackedPrefill piggybacking) {
        return pipeline(cost, piggybacking).withoutHostTokens(scene.state);
    }

    /**
     * A queue of 15 that has shrunk by one per step. Ten outputs of a limit of 114 come with 71 prompt tokens, so
     * prompts take long steps.
     *
     * @param gpuBlocks of which 16 hold the eight sequences
     * @param hostSequences that are on the host before; the GPU decodes 8
     */
    private static Scene queueThatEnds(Pipeline pipeline, int gpuBlocks, int hostSequences) {
        return queueThatEnds(pipeline, gpuBlocks, hostSequences, 15, 114);
    }

    /**
     * A queue that has shrunk by one per step.
     *
     * @param waiting requests, whose prompts have 100 tokens
     * @param limit of a sequence's tokens
     */
    private static Scene queueThatEnds(Pipeline pipeline, int gpuBlocks, int hostSequences, int waiting, int limit) {
        Scene scene = scene(gpuBlocks, limit);
        for (int i = 0; i < hostSequences; i++) {
            scene.host(40);
        }
        int steps = Math.max(5, waiting / 10);
        Queue<Sequence> queue = new ArrayDeque<>();
        for (int i = 0; i < waiting + steps; i++) {
            queue.add(scene.waiting(100));
        }
        for (int i = 0; i < steps; i++) {
            pipeline.completed(new StepDraft(scene.state, BUDGET), 1);
            scene.committer.remove(queue.remove());
        }
        return scene;
    }

    /** A queue of 60 that has not shrunk for a window. */
    private static Scene queueThatLasts(Pipeline pipeline, int gpuBlocks, int prompt, int limit) {
        Scene scene = scene(gpuBlocks, limit);
        for (int i = 0; i < 60; i++) {
            scene.waiting(prompt);
        }
        for (int step = 0; step < 1024; step++) {
            pipeline.completed(new StepDraft(scene.state, BUDGET), 1);
        }
        return scene;
    }

    private static StepDraft draftOfAQueueThatEnds(CostModel cost, int hostSequences) {
        Pipeline pipeline = pipeline(cost, PIGGYBACKED);
        return pipeline.withoutHostTokens(queueThatEnds(pipeline, 26, hostSequences).state);
    }

    @Test
    void promptsFillAHostThatGains() {
        Scene scene = fullGpu();
        for (int i = 0; i < 15; i++) {
            scene.waiting(100);
        }
        assertThat(Scene.text(draft(scene, TestProfile.model(), PIGGYBACKED)))
                .as("beside eight decodes, because the host is empty")
                .contains("r8+56host");
    }

    @Test
    void promptsDoNotFillAHostThatGainsNothing() {
        // one host token of 8 tokens takes the CPU 80 s per layer, and both linear stages take 20
        Scene scene = fullGpu();
        scene.waiting(100);
        assertThat(Scene.text(draft(scene, TestProfile.withCpu(0.01), PIGGYBACKED)))
                .isEqualTo("[r0 r1 r2 r3 r4 r5 r6 r7]");
    }

    @Test
    void promptsOfShortOutputsTakeLongSteps() {
        // 25 outputs of a limit of 125 come with 100 prompt tokens, which do not fit beside their decodes; eight
        // decodes
        // need 5,156 steps for the outputs of 1,650 requests
        Scene scene = fullGpu(125);
        for (int i = 0; i < 1650; i++) {
            scene.waiting(100);
        }
        assertThat(Scene.text(draft(scene, TestProfile.withCpu(100), CheapRows.upTo(32))))
                .contains("r8+100host");
    }

    @Test
    void noPromptStartsOnTheHostForAQueueThatEnds() {
        StepDraft draft = draftOfAQueueThatEnds(TestProfile.withCpu(0.01), 0);
        assertThat(Scene.text(draft)).isEqualTo("[r0 r1 r2 r3 r4 r5 r6 r7]");
        assertThat(draft.note())
                .contains("less than 5 % (15 % without a target per token)")
                .contains("until the queue ends, which is within two windows");
    }

    @Test
    void promptsOfAQueueThatEndsStartAsInGpuOnlyWhileTheHostIsEmpty() {
        Pipeline pipeline = pipeline(new Budget(2000, 40, 2000), TestProfile.withCpu(0.01), PIGGYBACKED);
        StepDraft draft = pipeline.withoutHostTokens(queueThatEnds(pipeline, 200, 0).state);
        assertThat(draft.note()).contains("no prompt starts on the host");
        assertThat(draft.totalRows()).isEqualTo(PIGGYBACKED.maxRows());
    }

    /**
     * With a target the first steps are short, and so few decodes save little where prompts are piggybacked on them.
     */
    @Test
    void whileMorePromptsHaveRoomThanSequencesDecodePromptsAreComputedAtOnceWithinATarget() {
        Pipeline within = new Pipeline(
                new Budget(2000, 40, 2000),
                new StepPredictor(TestProfile.withCpu(0.01), true, 0),
                new TierRules(new LatencyTargets(0, Long.MAX_VALUE), 0, 0),
                Deviations.of(Fidelity.TANDEM),
                true,
                Set.of(Kind.HOST_TOKENS_IN_BOTH),
                PIGGYBACKED);
        StepDraft draft = within.withoutHostTokens(queueThatEnds(within, 316, 0).state);
        assertThat(draft.note()).contains("no prompt starts on the host");
        assertThat(draft.load(0).gpuRows()).isEqualTo(8);
        assertThat(draft.totalRows()).as("with eleven prompts").isEqualTo(8 + 11 * 100);

        Scene later = queueThatEnds(within, 316, 0);
        for (int i = 0; i < 16; i++) {
            later.committer.remove(later.gpu(8)); // one token of output
        }
        assertThat(within.withoutHostTokens(later.state).totalRows())
                .as("the first prompts are long computed")
                .isLessThan(512);

        Pipeline without = pipeline(new Budget(2000, 40, 2000), TestProfile.withCpu(0.01), PIGGYBACKED);
        Scene scene = queueThatEnds(without, 316, 0);
        GpuOnly gpuOnly = new GpuOnly(new Budget(2000, 40, 2000), Preemption.SWAP, 0, PIGGYBACKED);
        assertThat(without.withoutHostTokens(scene.state).totalRows())
                .isEqualTo(gpuOnly.draft(scene.state, new Decision()).totalRows())
                .isLessThan(128);
    }

    @Test
    void promptsOfAQueueThatEndsStartAsInGpuOnlyWhenTheHostsSequenceReturns() {
        Pipeline pipeline = pipeline(new Budget(2000, 40, 2000), TestProfile.withCpu(0.01), PIGGYBACKED);
        Scene scene = queueThatEnds(pipeline, 200, 0);
        scene.host(40);
        StepDraft draft = pipeline.withoutHostTokens(scene.state);
        assertThat(draft.note()).contains("no prompt starts on the host");
        assertThat(draft.totalRows()).isEqualTo(PIGGYBACKED.maxRows());
    }

    /** Eight decodes come with 4 prompt tokens each, and GEMMs are efficient from 512 rows on. */
    @Test
    void promptsThatHoldUpDecodesComeInBalanceWithThem() {
        Pipeline pipeline = pipeline(new Budget(4000, 40, 4000), TestProfile.withCpu(100), CheapRows.upTo(32));
        Scene scene = queueThatLasts(pipeline, 26, 160, 200);
        assertThat(pipeline.withoutHostTokens(scene.state).totalRows()).isEqualTo(1024);
    }

    /** Long steps with 200 prompt tokens per output are full of prompts, so that host tokens hardly add to them. */
    @Test
    void noPromptTakesALongStepForAHostThatHardlyGainsThoughTheQueueLasts() {
        Pipeline pipeline = pipeline(new Budget(4000, 40, 4000), TestProfile.withCpu(100), PIGGYBACKED);
        Scene scene = queueThatLasts(pipeline, 26, 200, 201);
        assertThat(chosen(pipeline, scene, Kind.HOST_TOKENS_IN_BOTH)).isEqualTo(HostPrompts.HARDLY_GAINS);
        assertThat(HostPrompts.HARDLY_GAINS.note()).contains("would gain less than 5 %");
    }

    /** Until requests have ended, their outputs may be as long as they allow: 4,000 tokens, or the 200 of a guess. */
    @Test
    void aGainThatNeedsShortOutputsDoesNotFillTheHostUntilTheyAreKnown() {
        StepPredictor predictor = new StepPredictor(TestProfile.withCpu(2), true, 0);
        Scene scene = new Scene(900, 40_000, BUDGET).limit(8000);
        for (int i = 0; i < 8; i++) {
            scene.gpu(375);
        }
        for (int i = 0; i < 15; i++) {
            scene.waiting(4000);
        }
        SpeedupEstimate estimate = new SpeedupEstimate(predictor, Kind.HOST_TOKENS_IN_BOTH, 0);
        StepDraft decodes = GpuSteps.decodes(scene.state, BUDGET, Preemption.SWAP);
        double guessed = estimate.of(decodes).gain();
        assertThat(estimate.cautiousGain(decodes).gain()).isLessThan(guessed);
        for (int i = 0; i < 16; i++) {
            scene.committer.remove(scene.gpu(8)); // one token of output
        }
        StepDraft known = GpuSteps.decodes(scene.state, BUDGET, Preemption.SWAP);
        assertThat(estimate.cautiousGain(known).gain())
                .isEqualTo(estimate.of(known).gain());
    }

    @Test
    void theQueueDoesNotMatterWhereTheGpuHasRoomForIt() {
        Pipeline pipeline = pipeline(new Budget(2000, 40, 2000), TestProfile.withCpu(0.01), PIGGYBACKED);
        StepDraft draft = pipeline.withoutHostTokens(queueThatEnds(pipeline, 600, 0).state);
        assertThat(draft.note()).isEmpty();
        assertThat(draft.totalRows()).as("15 prompts and 8 decodes").isEqualTo(1508);
    }

    /** Eight sequences hold 16 blocks, and each of 15 prompts takes 25. */
    @ParameterizedTest
    @CsvSource({"391, IN_LONG_STEPS", "390, QUEUE_ENDS"})
    void theGpuHasRoomForTheQueueDownToItsLastBlock(int gpuBlocks, HostPrompts expected) {
        Pipeline pipeline = pipeline(TestProfile.withCpu(0.01), PIGGYBACKED);
        Scene scene = queueThatEnds(pipeline, gpuBlocks, 0);
        assertThat(chosen(pipeline, scene, Kind.HOST_TOKENS_IN_BOTH)).isEqualTo(expected);
    }

    @Test
    void theDecisionLogSaysThatTheQueueEnds() {
        Pipeline pipeline = pipeline(TestProfile.withCpu(0.01), PIGGYBACKED);
        Scene scene = queueThatEnds(pipeline, 26, 0);
        PolicyScheduler scheduler = PolicyScheduler.of(new Asymmetric("asymmetric", pipeline));
        long step = scheduler.plan(scene.state, scene.committer).step();
        StepResult result = new StepResult(step, List.of(), List.of(), List.of(), StepTimes.NONE);
        assertThat(scheduler.completed(result, 1).reason())
                .startsWith("asymmetric: ")
                .contains("; no prompt starts on the host")
                .contains("until the queue ends, which is within two windows");
    }

    @Test
    void aHostWithAClearGainIsFilledForAQueueThatEnds() {
        assertThat(Scene.text(draftOfQueue(60))).contains("host");
        assertThat(draftOfQueue(60).note()).isEmpty();
    }

    @Test
    void theHostIsNotFilledForAQueueThatEndsBeforeItIsFull() {
        assertThat(Scene.text(draftOfQueue(15))).doesNotContain("host");
        assertThat(draftOfQueue(15).note()).contains("no prompt starts on the host");
    }

    private static StepDraft draftOfQueue(int waiting) {
        Pipeline pipeline = pipeline(TestProfile.withCpu(100), PIGGYBACKED);
        return pipeline.withoutHostTokens(queueThatEnds(pipeline, 26, 0, waiting, 114).state);
    }

    private static HostPrompts chosen(Pipeline pipeline, Scene scene, Kind kind) {
        return chosen(pipeline, scene, kind, GpuKvLimit.NONE);
    }

    private static HostPrompts chosen(Pipeline pipeline, Scene scene, Kind kind, GpuKvLimit limit) {
        StepDraft decodes = GpuSteps.decodes(scene.state, BUDGET, Preemption.SWAP);
        return HostPrompts.of(decodes, pipeline.predictor(), pipeline.rules(), Set.of(kind), PIGGYBACKED, limit);
    }

    /** Without a target a gain must be 15 %; a queue of 15 requests gives a host of 10 two thirds of it. */
    @ParameterizedTest
    @CsvSource({"0.22, 10, QUEUE_ENDS", "0.23, 10, IN_BALANCE"})
    void theGainOfAGpuWithLessKvFillsTheHostForAQueueThatEnds(double gain, int hostTokens, HostPrompts expected) {
        Pipeline pipeline = pipeline(TestProfile.withCpu(0.01), PIGGYBACKED);
        Scene scene = queueThatEnds(pipeline, 26, 0);
        assertThat(chosen(pipeline, scene, Kind.HOST_TOKENS_IN_BOTH)).isEqualTo(HostPrompts.QUEUE_ENDS);
        assertThat(chosen(pipeline, scene, Kind.HOST_TOKENS_IN_BOTH, new GpuKvLimit(10, 100, hostTokens, gain)))
                .isEqualTo(expected);
    }

    @ParameterizedTest
    @CsvSource({"0.149, HARDLY_GAINS", "0.15, IN_BALANCE"})
    void theGainOfAGpuWithLessKvFillsTheHostWhileTheQueueLasts(double gain, HostPrompts expected) {
        Pipeline pipeline = pipeline(new Budget(4000, 40, 4000), TestProfile.withCpu(100), PIGGYBACKED);
        Scene scene = queueThatLasts(pipeline, 26, 200, 201);
        assertThat(chosen(pipeline, scene, Kind.HOST_TOKENS_IN_BOTH, new GpuKvLimit(10, 100, 10, gain)))
                .isEqualTo(expected);
    }

    @Test
    void theGainOfAGpuWithLessKvFillsTheHostThoughAFullOneGainsNothing() {
        Scene scene = fullGpu();
        scene.waiting(100);
        Pipeline pipeline = pipeline(TestProfile.withCpu(0.01), PIGGYBACKED);
        assertThat(chosen(pipeline, scene, Kind.IN_FLIGHT)).isEqualTo(HostPrompts.NONE);
        assertThat(chosen(pipeline, scene, Kind.IN_FLIGHT, new GpuKvLimit(10, 100, 10, 0.2)))
                .isEqualTo(HostPrompts.PIGGYBACKED);
    }

    /**
     * A host of 46 tokens gains 27.9 %, and one of 51 gains 29.6 %; the requests that fill it have half of that. So 46
     * of 49 have 14.8 %, 51 of 52 have 15.1 %, 37 of 43 have 14.3 %, and 42 of 46 have 15.2 %.
     */
    @ParameterizedTest
    @CsvSource({"0, 49, QUEUE_ENDS", "0, 52, IN_BALANCE", "2, 43, QUEUE_ENDS", "2, 46, IN_BALANCE"})
    void requestsThatFillTheHostHaveHalfOfItsGain(int hostAndInFlight, int waiting, HostPrompts expected) {
        Pipeline pipeline = pipeline(TestProfile.withCpu(100), PIGGYBACKED);
        Scene scene = queueThatEnds(pipeline, 26, hostAndInFlight, waiting, 114);
        for (int i = 0; i < hostAndInFlight; i++) {
            scene.inFlight(40);
        }
        assertThat(chosen(pipeline, scene, Kind.HOST_TOKENS_IN_BOTH)).isEqualTo(expected);
    }

    /** Beside 100 prompt tokens per output, 16 host tokens gain 12 %; without prompts none gains. */
    @Test
    void aGainThatNeedsPromptsDoesNotFillTheHostForAQueueThatEnds() {
        Scene scene = new Scene(770, 2000, BUDGET).limit(600);
        for (int i = 0; i < 8; i++) {
            scene.gpu(375);
        }
        for (int i = 0; i < 4; i++) {
            scene.host(375);
        }
        scene.limit(101);
        for (int i = 0; i < 15; i++) {
            scene.waiting(100);
        }
        StepPredictor predictor = new StepPredictor(TestProfile.withCpu(2), true, 0);
        TierRules rules = new TierRules(new LatencyTargets(0, Long.MAX_VALUE), 0, 0);
        StepDraft decodes = GpuSteps.decodes(scene.state, BUDGET, Preemption.SWAP);
        assertThat(new SpeedupEstimate(predictor, Kind.HOST_TOKENS_IN_BOTH, 0).of(decodes))
                .satisfies(estimate -> assertThat(estimate.gain()).isCloseTo(0.121, within(0.001)));
        assertThat(HostPrompts.of(
                        decodes, predictor, rules, Set.of(Kind.HOST_TOKENS_IN_BOTH), PIGGYBACKED, GpuKvLimit.NONE))
                .isEqualTo(HostPrompts.QUEUE_ENDS);
    }

    @Test
    void promptsOfAHostThatGainsInOneBatchArePiggybacked() {
        Scene scene = fullGpu();
        for (int i = 0; i < 10; i++) {
            scene.waiting(100);
        }
        assertThat(chosen(pipeline(TestProfile.model(), PIGGYBACKED), scene, Kind.IN_FLIGHT))
                .isEqualTo(HostPrompts.PIGGYBACKED);
        assertThat(chosen(pipeline(TestProfile.withCpu(0.01), PIGGYBACKED), scene, Kind.IN_FLIGHT))
                .as("a token of 8 tokens takes the CPU 80 s, and a step 21")
                .isEqualTo(HostPrompts.NONE);
    }

    /** One token in flight over two layers beside eight decodes gains 6 %. */
    @Test
    void noPromptIsPiggybackedForAnEmptyHostThatHardlyGains() {
        Scene scene = fullGpu();
        scene.waiting(100);
        Pipeline pipeline = pipeline(TestProfile.model(), PIGGYBACKED);
        assertThat(chosen(pipeline, scene, Kind.IN_FLIGHT)).isEqualTo(HostPrompts.HARDLY_GAINS);
        scene.host(8);
        assertThat(chosen(pipeline, scene, Kind.IN_FLIGHT)).isEqualTo(HostPrompts.PIGGYBACKED);
    }

    @Test
    void promptsOfAnEmptyHostThatGainsArePiggybacked() {
        Scene scene = fullGpu(125);
        for (int i = 0; i < 15; i++) {
            scene.waiting(100);
        }
        Pipeline pipeline = pipeline(TestProfile.model(), PIGGYBACKED);
        assertThat(chosen(pipeline, scene, Kind.HOST_TOKENS_IN_BOTH)).isEqualTo(HostPrompts.PIGGYBACKED);
        scene.host(40);
        assertThat(chosen(pipeline, scene, Kind.HOST_TOKENS_IN_BOTH)).isEqualTo(HostPrompts.IN_BALANCE);
    }

    /**
     * Four prompt tokens come with an output: those of 8 decodes fit beside them, and with 13 host tokens they do not.
     */
    @Test
    void promptsArePiggybackedWhereThoseOfHostTokensFitBesideDecodesToo() {
        Pipeline pipeline = pipeline(TestProfile.model(), PIGGYBACKED);
        assertThat(chosen(pipeline, besideFewDecodes(13, 125), Kind.HOST_TOKENS_IN_BOTH))
                .isEqualTo(HostPrompts.IN_BALANCE);
        assertThat(chosen(pipeline, besideFewDecodes(13, 200), Kind.HOST_TOKENS_IN_BOTH))
                .as("one prompt token per output")
                .isEqualTo(HostPrompts.PIGGYBACKED);
    }

    /** A host of 13 tokens gains 29.3 %, and one of 14 gains 31.8 %; the requests that fill it have half of that. */
    @ParameterizedTest
    @CsvSource({"12, PIGGYBACKED_FOR_QUEUE_END", "13, IN_BALANCE"})
    void promptsBesideFewDecodesTakeLongStepsForAClearGain(int waiting, HostPrompts expected) {
        Pipeline pipeline = pipeline(TestProfile.model(), PIGGYBACKED);
        assertThat(chosen(pipeline, besideFewDecodes(waiting, 125), Kind.HOST_TOKENS_IN_BOTH))
                .isEqualTo(expected);
    }

    @Test
    void promptsBesideFewDecodesTakeLongStepsForAQueueThatLasts() {
        Pipeline pipeline = pipeline(TestProfile.model(), PIGGYBACKED);
        Scene scene = besideFewDecodes(12, 125);
        HostPrompts ends = chosen(pipeline, scene, Kind.HOST_TOKENS_IN_BOTH);
        assertThat(ends).isEqualTo(HostPrompts.PIGGYBACKED_FOR_QUEUE_END);
        assertThat(ends.note())
                .startsWith("prompts stay piggybacked, because two sub-batches would gain less than 5 %");
        for (int step = 0; step < 1024; step++) {
            pipeline.completed(new StepDraft(scene.state, BUDGET), 1); // the queue does not shrink
        }
        assertThat(chosen(pipeline, scene, Kind.HOST_TOKENS_IN_BOTH)).isEqualTo(HostPrompts.IN_BALANCE);
    }

    private static Scene besideFewDecodes(int waiting, int limit) {
        Scene scene = fullGpu(limit);
        scene.host(40);
        for (int i = 0; i < waiting; i++) {
            scene.waiting(100);
        }
        return scene;
    }

    @Test
    void aFilledHostStaysFullForAQueueThatEnds() {
        StepDraft asManyAsTheGpu = draftOfAQueueThatEnds(TestProfile.withCpu(0.01), 8);
        assertThat(Scene.text(asManyAsTheGpu)).doesNotContain("host");
        StepDraft more = draftOfAQueueThatEnds(TestProfile.withCpu(0.01), 9);
        assertThat(Scene.text(more)).contains("host");
        assertThat(more.note()).isEmpty();
    }

    @Test
    void promptsFillTheHostWhateverItGainsWhereTheyDoNotPiggyback() {
        Scene scene = fullGpu();
        scene.waiting(100);
        assertThat(Scene.text(draft(scene, TestProfile.withCpu(0.01), PiggybackedPrefill.NONE)))
                .contains("r8+100host");
    }

    @Test
    void hostSequencesReturnBeforePromptsStartWhereTheHostGainsNothing() {
        // 10 blocks are free: the prompt has room for itself and one block per sequence, the host sequence has not
        Scene scene = fullGpu();
        scene.host(40);
        scene.waiting(4);
        assertThat(Scene.text(draft(scene, TestProfile.withCpu(0.01), PiggybackedPrefill.NONE)))
                .contains("r9+4");
        assertThat(Scene.text(draft(scene, TestProfile.withCpu(0.01), PIGGYBACKED)))
                .isEqualTo("[r0 r1 r2 r3 r4 r5 r6 r7]");
    }
}
