package dev.tandem.engine.strategy;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.engine.cost.CostModel;
import dev.tandem.engine.cost.Profile;
import dev.tandem.engine.executor.PiggybackedPrefill;
import dev.tandem.engine.kv.KvCache;
import dev.tandem.engine.kv.PrefillStaging;
import dev.tandem.engine.kv.PrefixCacheOptions;
import dev.tandem.engine.request.LatencyTargets;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Scene;
import dev.tandem.engine.schedule.StepDraft;
import dev.tandem.engine.strategy.SpeedupEstimate.Kind;
import java.time.Duration;
import java.util.Set;
import org.junit.jupiter.api.Test;

/**
 * Rows of steps whose GEMMs compute whole tiles of 64 rows, and the blocks that such steps find free for staging. Two
 * layers; a tile takes 10 s, but seven take as long as eight; the CPU takes 0.1 s per token of context. The target of
 * 340 s per token allows GEMMs of eight tiles, and half of the budget is 416 rows.
 */
class WholeTilesTest {
    private static final Budget BUDGET = new Budget(832, 64, 832);
    private static final int TILES = 13;
    /** Requests that may be on the host however slow it is; the target of the others bounds the time of prompts. */
    private static final LatencyTargets ANY_PACE =
            new LatencyTargets(0, Duration.ofDays(1).toNanos());

    private static final Duration TARGET = Duration.ofSeconds(340);

    private static CostModel stairs() {
        StringBuilder linear = new StringBuilder("linear 1 10\nlinear 64 10\n");
        for (int tiles = 2; tiles <= TILES; tiles++) {
            int seconds = tiles == 7 ? 80 : 10 * tiles;
            linear.append("linear %d %d%nlinear %d %d%n".formatted(64 * tiles - 63, seconds, 64 * tiles, seconds));
        }
        String others = TestProfile.TEXT.replaceAll("linear .*\n", "").replace("layers 2\n", "layers 2\n" + linear);
        return new CostModel(Profile.parse(others + "trip-overhead 5\n", "stairs"));
    }

    private static Pipeline pipeline(Budget budget, CostModel cost, boolean wholeTiles) {
        return pipeline(budget, cost, wholeTiles, TARGET);
    }

    private static Pipeline pipeline(Budget budget, CostModel cost, boolean wholeTiles, Duration target) {
        return new Pipeline(
                budget,
                new StepPredictor(cost, true, 0),
                new TierRules(new LatencyTargets(0, target.toNanos()), 0, 0),
                Deviations.of(Fidelity.TANDEM).with(Deviation.WHOLE_TILES, wholeTiles),
                true,
                Set.of(Kind.HOST_TOKENS_IN_BOTH),
                PiggybackedPrefill.NONE);
    }

    /** A step with one decode on the GPU, host tokens of equal context, and prompts that fill it. */
    private static String step(int hostTokens, int context, boolean wholeTiles, int... prompts) {
        return step(pipeline(BUDGET, stairs(), wholeTiles), hostTokens, context, prompts);
    }

    private static String step(Pipeline pipeline, int hostTokens, int context, int... prompts) {
        Scene scene = new Scene(3, 4000, BUDGET).limit(900);
        scene.gpu(9);
        for (int i = 0; i < hostTokens; i++) {
            scene.host(context);
        }
        for (int prompt : prompts) {
            scene.waiting(prompt, ANY_PACE);
        }
        return Scene.text(pipeline.draft(scene.state));
    }

    @Test
    void aTileThatSavesLittlePerRowIsLeftOut() {
        // the target allows nine tiles: 100 s per 576 rows, and eight take 90 s per 512, 1.2 % more per row
        Pipeline pipeline = pipeline(BUDGET, stairs(), true, Duration.ofSeconds(380));
        assertThat(step(pipeline, 0, 0, 300, 300)).isEqualTo("[r0 r1+300host r2+211host]");
    }

    @Test
    void promptsFillTheTilesThatTakeLeastPerRow() {
        assertThat(step(0, 0, true, 300, 300)).as("8 tiles").isEqualTo("[r0 r1+300host r2+211host]");
        assertThat(step(0, 0, false, 300, 300)).as("half of the budget").isEqualTo("[r0 r1+300host r2+115host]");
    }

    @Test
    void promptsLeaveRowsToTheHostWhereTheCpuIsTheBottleneck() {
        // 14 tokens take 14 x 6 s, and 8 tiles 80 s; so half of the budget less 14 rows are left
        assertThat(step(14, 60, true, 300, 300)).startsWith("[r0 r15+300host r16+101host");
    }

    @Test
    void aHostTokenBeginsNoTile() {
        // 26 tokens of 3 s: 25 of them and the trip take 80 s; the last would hide in sub-batch 0
        assertThat(step(26, 30, true, 300, 300)).startsWith("[r0 r27+300host r28+211host]");
        assertThat(step(26, 30, true, 300, 210)).startsWith("[r0 r27+300host r28+210host r26cpu]");
    }

    /** Host tokens of three tokens each that a step of eight tiles takes, where so many wait. */
    private static int hostTokens(int waiting) {
        Budget budget = new Budget(832, 200, 832);
        Scene scene = new Scene(3, 4000, budget).limit(900);
        scene.gpu(9);
        for (int i = 0; i < waiting; i++) {
            scene.host(3);
        }
        scene.waiting(300, ANY_PACE);
        scene.waiting(300, ANY_PACE);
        StepDraft draft = pipeline(budget, stairs(), true).draft(scene.state);
        return draft.load(0).cpuRows() + draft.load(1).cpuRows();
    }

    @Test
    void aHostTokenBeginsATileWhereEnoughOthersFollow() {
        // 64 host tokens, a decode and 1.7 prompts take 80 and 10 s; a tile more takes 10 s, as much as 7.4 tokens
        assertThat(hostTokens(64 + 7)).isEqualTo(64);
        assertThat(hostTokens(64 + 8)).isEqualTo(64 + 8);
    }

    /** A step with a decode of three blocks on the GPU, a long host token, and a prompt of ten blocks. */
    private static String stepBeside(int gpuBlocks) {
        Budget budget = new Budget(40, 20, 40);
        KvCache kv = new KvCache(4, 4, gpuBlocks, 100, new PrefillStaging(4, 4, 8), PrefixCacheOptions.OFF, 0);
        Scene scene = new Scene(kv, budget).limit(130);
        scene.gpu(9);
        scene.host(120);
        scene.limit(45);
        scene.waiting(37);
        return Scene.text(pipeline(budget, TestProfile.model(), true).draft(scene.state));
    }

    @Test
    void aPromptOnTheGpuLeavesTheBlocksInWhichOthersAreStaged() {
        // a layer of 40 tokens, after as many as the prompt has, and copies take 6 blocks; without them 14 would do
        assertThat(stepBeside(20)).isEqualTo("[r0 r2+37]");
        assertThat(stepBeside(19)).isEqualTo("[r0 r2+37host]");
    }
}
