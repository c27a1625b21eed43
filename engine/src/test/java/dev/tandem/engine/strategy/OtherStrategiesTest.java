package dev.tandem.engine.strategy;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.engine.executor.CheapRows;
import dev.tandem.engine.executor.ExecutorLimits;
import dev.tandem.engine.executor.PiggybackedPrefill;
import dev.tandem.engine.request.LatencyTargets;
import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Decision;
import dev.tandem.engine.schedule.Policy;
import dev.tandem.engine.schedule.Preemption;
import dev.tandem.engine.schedule.Scene;
import dev.tandem.engine.schedule.Shape;
import dev.tandem.engine.schedule.StepDraft;
import dev.tandem.engine.step.AttentionSite;
import dev.tandem.engine.step.StepPlan;
import dev.tandem.engine.strategy.select.Strategy;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Plans of NEO's strawmen (§3.1), of async overlap and of the tier rules; {@link TestProfile} has the times. */
class OtherStrategiesTest {
    private static final Budget BUDGET = new Budget(400, 20, 400);

    private static Policy policy(Strategy strategy) {
        return strategy.policy(Strategy.Options.of(BUDGET), TestProfile.model());
    }

    private static Policy withRules(Strategy strategy, TierRules rules) {
        return strategy.policy(Strategy.Options.builder(BUDGET).rules(rules).build(), TestProfile.model());
    }

    @Test
    void simpleOffloadDecodesEverythingOnTheCpuInOneBatch() {
        Scene scene = new Scene(50, 200, BUDGET);
        scene.gpu(9);
        scene.host(30);
        scene.waiting(12);
        StepDraft draft = policy(Strategy.SIMPLE_OFFLOAD).draft(scene.state, new Decision());
        assertThat(Scene.text(draft)).isEqualTo("r0>host [r2+12host r1cpu r0cpu]");
        assertThat(draft.shape()).isEqualTo(Shape.OFFLOAD);
    }

    @Test
    void symmetricGivesPrefillsStepsOfTheirOwn() {
        Scene scene = new Scene(50, 200, BUDGET);
        scene.host(30);
        scene.waiting(12);
        assertThat(scene.draft(policy(Strategy.SYMMETRIC))).isEqualTo("[r1+12host]");
    }

    @Test
    void symmetricSplitsDecodesByTheirContext() {
        Scene scene = new Scene(50, 200, BUDGET);
        scene.host(90);
        scene.host(30);
        scene.host(30);
        scene.host(30);
        assertThat(scene.draft(policy(Strategy.SYMMETRIC))).isEqualTo("[r0cpu] [r1cpu r2cpu r3cpu]");
    }

    @Test
    void asyncOverlapAdmitsWhileTheCpuKeepsUp() {
        // the step takes 2 * (10 + 0.09) = 20.18, the CPU's time for 201 tokens of context: four sequences of 50
        Scene scene = new Scene(3, 200, BUDGET).limit(100);
        scene.gpu(9);
        for (int i = 0; i < 6; i++) {
            scene.host(50);
        }
        StepDraft draft = policy(Strategy.ASYNC_OVERLAP).draft(scene.state, new Decision());
        assertThat(Scene.text(draft)).isEqualTo("[r0] admit r1 admit r2 admit r3 admit r4");
        assertThat(draft.slots())
                .as("four tokens over two layers and some headroom: the smallest bucket")
                .isEqualTo(8);
    }

    /** Blocks of 4 tokens: the one on the GPU takes 3, and each in flight would take 3 and one for its growth. */
    private static Scene oneOnTheGpuAndThreeInFlight(int gpuBlocks) {
        Scene scene = new Scene(gpuBlocks, 200, BUDGET).limit(16);
        for (int i = 0; i < 3; i++) {
            scene.inFlight(10);
        }
        scene.gpu(9);
        return scene;
    }

    @Test
    void inFlightTokensPauseWhileTheGpuHasRoomForTheirSequences() {
        Policy policy = policy(Strategy.ASYNC_OVERLAP);
        assertThat(oneOnTheGpuAndThreeInFlight(6).draft(policy)).isEqualTo("[r3]");
        assertThat(oneOnTheGpuAndThreeInFlight(13).draft(policy)).isEqualTo("[r3] pause r0 pause r1");
        assertThat(oneOnTheGpuAndThreeInFlight(50).draft(policy)).isEqualTo("[r3] pause r0 pause r1 pause r2");
    }

    @Test
    void pausedTokensAreBegunAnewOnTheGpu() {
        Policy policy = policy(Strategy.ASYNC_OVERLAP);
        Scene scene = oneOnTheGpuAndThreeInFlight(13);
        StepPlan plan = scene.committer.commit(policy.draft(scene.state, new Decision()));
        assertThat(plan.pause()).containsExactly(0L, 1L);
        assertThat(scene.draft(policy))
                .as("the executor has not released them yet")
                .isEqualTo("[r3] pause r0 pause r1");
        plan.pause().forEach(scene.committer::endInFlight);
        assertThat(scene.draft(policy)).isEqualTo("r0>gpu r1>gpu [r3 r0 r1]");
    }

    @Test
    void inFlightTokensGoOnWhilePromptsWaitAndTheCpuKeepsUp() {
        Scene scene = oneOnTheGpuAndThreeInFlight(50);
        scene.waiting(8);
        assertThat(scene.draft(policy(Strategy.ASYNC_OVERLAP))).isEqualTo("[r3 r4+8]");
    }

    @Test
    void hostSequencesMoveToTheGpuBeforeInFlightTokensPause() {
        Scene scene = oneOnTheGpuAndThreeInFlight(10);
        scene.host(14);
        assertThat(scene.draft(policy(Strategy.ASYNC_OVERLAP))).isEqualTo("r4>gpu [r3 r4]");
    }

    @Test
    void theCohortOfThePaperGoesOn() {
        Policy apex = Strategy.APEX.policy(
                Strategy.Options.builder(BUDGET)
                        .deviations(Deviations.of(Fidelity.PRINTED))
                        .build(),
                TestProfile.model());
        assertThat(oneOnTheGpuAndThreeInFlight(50).draft(apex)).isEqualTo("[r3]");
    }

    /** Nine decoding sequences of three blocks each, all of which have to grow. */
    private static Scene nineDecoding(int gpuBlocks, int tokens) {
        Scene scene = new Scene(gpuBlocks, 0, BUDGET).limit(tokens);
        for (int i = 0; i < 9; i++) {
            scene.gpu(12);
        }
        return scene;
    }

    @Test
    void prefillsArePiggybackedOnlyWhenOthersWaitForKv() {
        GpuOnly policy = new GpuOnly(BUDGET, Preemption.SWAP, 0, CheapRows.upTo(16));
        Scene scene = nineDecoding(80, 200);
        scene.waiting(100);
        assertThat(policy.draft(scene.state, new Decision()).load(0).rows())
                .as("9 decodes and the prompt at once")
                .isEqualTo(109);
        scene.waiting(100); // 25 blocks each; 80 - 27 are free, 9 of them reserved for growth
        StepDraft draft = policy.draft(scene.state, new Decision());
        assertThat(draft.load(0).rows())
                .as("9 decodes and 7 prompt tokens: more rows cost as much as they do")
                .isEqualTo(16);
        GpuOnly wide = new GpuOnly(BUDGET, Preemption.SWAP, 0, CheapRows.upTo(96));
        assertThat(wide.draft(scene.state, new Decision()).load(0).rows())
                .as("as many as can be piggybacked")
                .isEqualTo(96);
        GpuOnly none = new GpuOnly(BUDGET, Preemption.SWAP, 0, PiggybackedPrefill.NONE);
        assertThat(none.draft(scene.state, new Decision()).load(0).rows()).isEqualTo(109);
    }

    @Test
    void prefillsArePiggybackedWhenTheyLeaveLittleForTheNext() {
        GpuOnly policy = new GpuOnly(BUDGET, Preemption.SWAP, 0, CheapRows.upTo(16));
        Scene scene = nineDecoding(80, 200);
        scene.waiting(144); // 36 blocks; of 80, 27 are used and 9 reserved for growth: 8 are left
        assertThat(policy.draft(scene.state, new Decision()).load(0).rows())
                .as("9 decodes and the prompt at once")
                .isEqualTo(153);
        Scene fuller = nineDecoding(80, 200);
        fuller.waiting(148); // 7 are left
        assertThat(policy.draft(fuller.state, new Decision()).load(0).rows())
                .as("9 decodes and 23 prompt tokens: with 7, four of ten sequences would decode")
                .isEqualTo(32);
    }

    @Test
    void promptsThatFewDecodesCarryAreSpreadOverFewerStepsWhereOutputsAreShort() {
        GpuOnly policy = new GpuOnly(BUDGET, Preemption.SWAP, 0, CheapRows.upTo(16));
        Scene scene = nineDecoding(200, 400);
        for (int i = 0; i < 3; i++) {
            scene.waiting(300); // 75 blocks each; 200 - 27 are free, 9 of them reserved for growth
        }
        while (scene.state.meanOutput() > 24) {
            scene.committer.remove(scene.gpu(4)); // one token of output
        }
        assertThat(scene.state.meanOutput() / 6).isBetween(3.3, 4.0);
        assertThat(policy.draft(scene.state, new Decision()).load(0).rows())
                .as("9 and 600 over nearly four steps, rounded up to 64")
                .isEqualTo(192);
        while (scene.state.meanOutput() > 12) {
            scene.committer.remove(scene.gpu(4));
        }
        assertThat(scene.state.meanOutput() / 6).isBetween(1.5, 2.0);
        assertThat(policy.draft(scene.state, new Decision()).load(0).rows())
                .as("9 and 600 over two steps, rounded up to 64")
                .isEqualTo(320);
        StepDraft decodes = GpuSteps.decodes(scene.state, BUDGET, Preemption.SWAP);
        Prefills prefills = new Prefills(true, true, sequence -> false, CheapRows.upTo(16));
        assertThat(prefills.maxRows(decodes, List.of(), 3))
                .as("three rows for host tokens")
                .isEqualTo(317);
    }

    @Test
    void promptsLeaveRowsToHostTokensThatJoinTheBatch() {
        Scene scene = nineDecoding(80, 200);
        for (int i = 0; i < 3; i++) {
            scene.waiting(100);
        }
        StepDraft decodes = GpuSteps.decodes(scene.state, BUDGET, Preemption.SWAP);
        Prefills prefills = new Prefills(true, true, sequence -> false, CheapRows.upTo(96));
        assertThat(prefills.maxRows(decodes, List.of(), 0)).isEqualTo(96);
        assertThat(prefills.maxRows(decodes, List.of(), 5)).isEqualTo(91);
        assertThat(prefills.maxRows(decodes, List.of(), 90))
                .as("prompts go on beside as many host tokens as rows")
                .isGreaterThan(decodes.totalRows());
        assertThat(prefills.maxRowsOfBothTiers(decodes, List.of(), 0)).isEqualTo(96);
        assertThat(prefills.maxRowsOfBothTiers(decodes, List.of(), 5)).isEqualTo(91);
    }

    @Test
    void promptsThatFitTheGpuAreComputedAtOnce() {
        Strategy.Options options = Strategy.Options.builder(BUDGET)
                .inFlight(new InFlightLimits(8, 64, false))
                .piggybacking(CheapRows.upTo(16))
                .build();
        Policy policy = Strategy.ASYNC_OVERLAP.policy(options, TestProfile.withCpu(100));
        Scene scene = new Scene(200, 200, BUDGET).limit(400);
        for (int i = 0; i < 9; i++) {
            scene.gpu(12);
        }
        scene.waiting(200);
        assertThat(policy.draft(scene.state, new Decision()).load(0).rows()).isEqualTo(209);
        scene.waiting(300); // 75 blocks; 200 - 27 - 50 are free: it fits as well
        assertThat(policy.draft(scene.state, new Decision()).load(0).rows())
                .as("as many as the budget allows")
                .isEqualTo(400);
        scene.waiting(300); // fits only the host
        assertThat(policy.draft(scene.state, new Decision()).load(0).rows())
                .as("9 and 800 over 32 steps, rounded up to 64")
                .isEqualTo(64);
    }

    @Test
    void asyncOverlapAdmitsByTheMeanStepWhichPromptsMakeLonger() {
        Policy policy = policy(Strategy.ASYNC_OVERLAP);
        Scene prompts = new Scene(50, 200, BUDGET).limit(101);
        prompts.gpu(9);
        prompts.waiting(99); // 2 * (10 + 0.09 + 4.95) = 30.08: six sequences of 50
        policy.completed(policy.draft(prompts.state, new Decision()), 1);
        Scene scene = new Scene(3, 200, BUDGET).limit(100);
        scene.gpu(9);
        for (int i = 0; i < 6; i++) {
            scene.host(50);
        }
        // by the time of this step it would be four
        assertThat(scene.draft(policy)).isEqualTo("[r0] admit r1 admit r2 admit r3 admit r4 admit r5 admit r6");
    }

    @Test
    void theCpuMayNeedOneAndAHalfMeanSteps() {
        Policy policy = policy(Strategy.ASYNC_OVERLAP);
        Scene prompts = new Scene(50, 200, BUDGET).limit(101);
        prompts.gpu(9);
        prompts.waiting(99); // 2 * (10 + 0.09 + 4.95) = 30.08; one and a half times that is 45.12
        policy.completed(policy.draft(prompts.state, new Decision()), 1);
        Scene scene = new Scene(3, 200, BUDGET).limit(100);
        scene.gpu(9);
        for (int i = 0; i < 6; i++) {
            scene.host(75);
        }
        scene.host(10);
        assertThat(scene.draft(policy))
                .as("the CPU needs 45 for six sequences of 75, and 46 for the last as well")
                .isEqualTo("[r0] admit r1 admit r2 admit r3 admit r4 admit r5 admit r6");
    }

    /** Slots of a step with so many in-flight tokens over two layers. */
    private static int slotsBeside(int inFlight) {
        Scene scene = new Scene(3, 200, BUDGET).limit(100);
        scene.gpu(9);
        for (int i = 0; i < inFlight; i++) {
            scene.inFlight(9);
        }
        return policy(Strategy.ASYNC_OVERLAP).draft(scene.state, new Decision()).slots();
    }

    @Test
    void asyncOverlapHasAQuarterMoreSlotsThanTokensPerLayer() {
        assertThat(slotsBeside(12)).as("1.25 * 6 = 7.5").isEqualTo(8);
        assertThat(slotsBeside(13)).as("1.25 * 6.5 = 8.1: the next bucket").isEqualTo(16);
    }

    @Test
    void asyncOverlapHasASlotForEachAdmittedToken() {
        Scene scene = new Scene(3, 200, BUDGET).limit(100);
        scene.gpu(9);
        for (int i = 0; i < 18; i++) {
            scene.host(9);
        }
        StepDraft draft = policy(Strategy.ASYNC_OVERLAP).draft(scene.state, new Decision());
        assertThat(draft.admissions())
                .as("half of them, as there are two layers")
                .hasSize(9);
        assertThat(draft.slots())
                .as("nine enter layer 0; 1.25 * 4.5 per layer would fit 8")
                .isEqualTo(16);
    }

    @Test
    void promptsLeaveRowsToTheSlotsOfInFlightTokens() {
        Strategy.Options options = Strategy.Options.builder(BUDGET)
                .inFlight(new InFlightLimits(8, 64, false))
                .piggybacking(CheapRows.upTo(16))
                .build();
        Policy policy = Strategy.ASYNC_OVERLAP.policy(options, TestProfile.model());
        Scene scene = new Scene(200, 200, BUDGET).limit(400);
        for (int i = 0; i < 9; i++) {
            scene.gpu(12);
        }
        scene.inFlight(9);
        scene.waiting(200);
        StepDraft draft = policy.draft(scene.state, new Decision());
        assertThat(draft.slots()).isEqualTo(8);
        assertThat(draft.load(0).rows())
                .as("9 decodes, 8 slots and four times 16, rounded up to 128, of which 8 are the slots'")
                .isEqualTo(120);
    }

    /** A host sequence of 50 tokens, four of them since it came to the host at 0, the last at {@code last}. */
    private static void decoded(Scene scene, long last) {
        Sequence sequence = scene.host(46);
        for (int i = 0; i < 4; i++) {
            sequence.advance(1);
            sequence.append(0, last);
        }
        scene.kv.grow(sequence, sequence.length());
    }

    @Test
    void asyncOverlapAdmitsOverdueTokensFirstThenInOrderOfArrival() {
        Scene scene = new Scene(3, 200, BUDGET).limit(100);
        scene.gpu(9);
        for (int i = 0; i < 6; i++) {
            decoded(scene, 400);
        }
        decoded(scene, 250);
        decoded(scene, 100);
        scene.committer.now(400);
        Policy policy = policy(Strategy.ASYNC_OVERLAP);
        policy.completed(policy.draft(scene.state, new Decision()), 1); // from here on the host's time per token is 100
        assertThat(scene.draft(policy))
                .as("six are admitted; r8 has waited 300, r7 150, the others 0")
                .isEqualTo("[r0] admit r8 admit r1 admit r2 admit r3 admit r4 admit r5");
    }

    @Test
    void asyncOverlapCountsInFlightTokens() {
        Scene scene = new Scene(3, 200, BUDGET).limit(100);
        scene.gpu(9);
        scene.inFlight(100);
        scene.inFlight(60);
        scene.host(41);
        scene.host(40);
        assertThat(scene.draft(policy(Strategy.ASYNC_OVERLAP)))
                .as("100 + 60 + 41 <= 201.8, then 40 more are too many")
                .isEqualTo("[r0] admit r3");
    }

    @Test
    void prefillsAreOffloadedInChunks() {
        Budget small = new Budget(400, 20, 10);
        Policy policy =
                Strategy.ASYNC_OVERLAP.policy(Strategy.Options.builder(small).build(), TestProfile.model());
        Scene scene = new Scene(3, 200, small).limit(100);
        scene.gpu(9);
        scene.host(20);
        scene.waiting(26);
        List<String> steps = new ArrayList<>();
        for (int i = 0; i < 4; i++) {
            StepDraft draft = policy.draft(scene.state, new Decision());
            steps.add(Scene.text(draft));
            scene.complete(scene.committer.commit(draft));
        }
        assertThat(steps)
                .containsExactly("[r0 r2+10host] admit r1", "[r0 r2+10host]", "[r0 r2+6host]", "[r0] admit r2");
    }

    @Test
    void promptsLongerThanABatchAreOffloadedInChunksToo() {
        Budget small = new Budget(13, 10, 13);
        Policy policy = Strategy.ADAPTIVE_PIPELINING.policy(
                Strategy.Options.builder(small).build(), TestProfile.model());
        Scene scene = new Scene(3, 200, small).limit(100);
        scene.gpu(9);
        scene.waiting(26);
        List<String> steps = new ArrayList<>();
        for (int i = 0; i < 4; i++) {
            StepDraft draft = policy.draft(scene.state, new Decision());
            steps.add(Scene.text(draft));
            scene.complete(scene.committer.commit(draft));
        }
        assertThat(steps).containsExactly("[r0 r1+12host]", "[r0 r1+11host]", "[r0 r1+3host]", "[r0] [r1cpu]");
    }

    @Test
    void gpuOnlyFinishesOffloadedPrefills() {
        Scene scene = new Scene(40, 200, BUDGET).limit(100);
        Sequence unfinished = scene.waiting(26);
        StepDraft begun = new StepDraft(scene.state, BUDGET);
        begun.start(unfinished, 10, AttentionSite.GPU_PREFILL_OFFLOAD);
        scene.complete(scene.committer.commit(begun));
        GpuOnly policy = new GpuOnly(BUDGET, Preemption.SWAP);
        StepDraft draft = policy.draft(scene.state, new Decision());
        assertThat(Scene.text(draft)).isEqualTo("[r0+16host]");
        scene.complete(scene.committer.commit(draft));
        assertThat(scene.draft(policy)).isEqualTo("r0>gpu [r0]");
    }

    @Test
    void aPlanHasTheSlotsOfItsDraft() {
        Scene scene = new Scene(3, 2000, BUDGET).limit(100);
        for (int i = 0; i < 100; i++) {
            scene.inFlight(9);
        }
        StepDraft none = new StepDraft(scene.state, BUDGET);
        assertThat(scene.committer.commit(none).slotsPerLayer())
                .as("in-flight tokens go on")
                .isEqualTo(13);
        StepDraft few = new StepDraft(scene.state, BUDGET);
        few.slots(8);
        assertThat(scene.committer.commit(few).slotsPerLayer()).isEqualTo(8);
    }

    @Test
    void noTokenEntersWhileACohortIsInFlight() {
        Scene scene = new Scene(3, 200, BUDGET).limit(100);
        scene.gpu(9);
        scene.inFlight(20);
        scene.host(20);
        AsyncOverlap cohort = new AsyncOverlap(
                BUDGET,
                new StepPredictor(TestProfile.model(), true, 0),
                TierRules.neutral(),
                Deviations.of(Fidelity.PRINTED),
                InFlightLimits.UNLIMITED,
                PiggybackedPrefill.NONE);
        assertThat(scene.draft(cohort)).isEqualTo("[r0]");
    }

    /** Beside prompts for the host there is no room on the GPU for the second prompt. */
    @ParameterizedTest
    @CsvSource({"9223372036854775807, [r0 r1+9host]", "50, [r0]"})
    void latencyTargetsKeepPromptsOffTheHost(long perTokenNanos, String expected) {
        Scene scene = new Scene(5, 60, BUDGET).limit(40);
        scene.gpu(9);
        scene.waiting(9);
        TierRules rules = new TierRules(new LatencyTargets(0, perTokenNanos), 0, 0);
        assertThat(scene.draft(withRules(Strategy.ASYMMETRIC, rules))).isEqualTo(expected);
    }

    /** A copy takes a fraction of the time in which the KV would be computed again. */
    @Test
    void aSequenceThatLeavesTheGpuKeepsItsKvWhateverItsTarget() {
        Scene scene = new Scene(5, 60, BUDGET).limit(40);
        scene.gpu(9);
        scene.gpu(9);
        TierRules strict = new TierRules(new LatencyTargets(0, 50), 0, 0);
        assertThat(scene.draft(withRules(Strategy.ASYMMETRIC, strict))).startsWith("r1>host");
    }

    @Test
    void requestsRotateBetweenTheTiers() {
        // the host sequence has had 3 tokens there: it changes places with the only GPU sequence
        TierRules rules = new TierRules(LatencyTargets.NONE, 3, 0);
        Scene scene = new Scene(6, 60, BUDGET).limit(40);
        Sequence gpu = scene.gpu(9);
        Sequence host = scene.host(9);
        for (Sequence sequence : new Sequence[] {gpu, host}) {
            for (int i = 0; i < 4; i++) {
                scene.kv.grow(sequence, sequence.length());
                sequence.advance(1);
                sequence.append(0, 0);
            }
        }
        scene.committer.now(1000);
        // the host sequence needs 4 of the GPU's 6 blocks, so both do not fit
        assertThat(scene.draft(withRules(Strategy.ASYMMETRIC, rules))).isEqualTo("r0>host r1>gpu [r1] [r0cpu]");
    }

    @Test
    void aHostSequenceTooFarBehindIsDueAtOnce() {
        TierRules rules = new TierRules(LatencyTargets.NONE, 0, 2);
        Scene scene = new Scene(6, 60, BUDGET).limit(40);
        Sequence gpu = scene.gpu(9);
        scene.host(9);
        for (int i = 0; i < 4; i++) {
            scene.kv.grow(gpu, gpu.length());
            gpu.advance(1);
            gpu.append(0, 0);
        }
        // the GPU's time per token is 250; four host tokens may take 4 * 250 times the max slowdown, and took 1000
        scene.committer.now(1000);
        assertThat(scene.draft(withRules(Strategy.ASYMMETRIC, rules))).isEqualTo("[r0] [r1cpu]");
        TierRules later = new TierRules(LatencyTargets.NONE, 0, 0.9);
        assertThat(scene.draft(withRules(Strategy.ASYMMETRIC, later))).isEqualTo("r0>host r1>gpu [r1] [r0cpu]");
    }

    @Test
    void invalidOptionsAreRejected() {
        assertThatThrownBy(() -> Strategy.of("neoo"))
                .hasMessage("--strategy neoo is not known; known are gpu-only, swiftllm, simple-offload, symmetric,"
                        + " fastdecode-plus, asymmetric, async-overlap, neo, apex, adaptive-pipelining, adaptive");
        ExecutorLimits limits = ExecutorLimits.builder()
                .vocabulary(10)
                .contextTokens(1000)
                .blockTokens(4)
                .gpuBlocks(500)
                .hostBlocks(20)
                .maxBatchTokens(64)
                .layers(2)
                .kvBytesPerToken(8)
                .overlaps(true)
                .inFlight(8, 100, true)
                .build();
        assertThatThrownBy(() -> Strategy.SYMMETRIC.check(limits, 100))
                .hasMessageContaining(
                        "--strategy symmetric keeps all KV on the host: a sequence of 100 tokens needs 25 blocks"
                                + " there and the host pool has 20; raise --host-kv");
        ExecutorLimits grouped = ExecutorLimits.builder()
                .vocabulary(10)
                .contextTokens(1000)
                .blockTokens(4)
                .gpuBlocks(500)
                .hostBlocks(9)
                .maxBatchTokens(4)
                .windows(List.of(0, 9, 9, 9))
                .build();
        assertThatThrownBy(() -> Strategy.SYMMETRIC.check(grouped, 100)) // 25 pages, and 4 in each of 3 groups
                .as("blocks of all layers")
                .hasMessageContaining("needs 10 blocks there and the host pool has 9;");
        ExecutorLimits none = ExecutorLimits.builder()
                .vocabulary(10)
                .contextTokens(1000)
                .blockTokens(4)
                .gpuBlocks(500)
                .maxBatchTokens(64)
                .layers(2)
                .kvBytesPerToken(8)
                .overlaps(true)
                .inFlight(8, 100, true)
                .build();
        assertThatThrownBy(() -> Strategy.NEO.check(none, 100)).hasMessageContaining("raise --host-kv");
        assertThatThrownBy(() -> new TierRules(LatencyTargets.NONE, -1, 0)).hasMessageContaining("--rotate-after -1");
        Deviations tandem = Deviations.of(Fidelity.TANDEM);
        assertThatThrownBy(() -> tandem.with("min-cpu-ratio=NaN"))
                .hasMessage("--deviation min-cpu-ratio=NaN: the value is not known; use a number of 0 or more");
    }
}
