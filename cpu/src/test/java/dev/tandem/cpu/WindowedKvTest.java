package dev.tandem.cpu;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.engine.EngineHarness;
import dev.tandem.engine.executor.Executor;
import dev.tandem.engine.executor.Readiness;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Preemption;
import dev.tandem.model.config.DataType;
import java.util.List;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;

/** KV behind a window is freed in the layers that have one, and no token changes. */
class WindowedKvTest {
    /** The window is 11 tokens; blocks have 16. */
    private static final String FAMILY = "mistralwindow";

    private static final int WINDOW_BLOCKS = 2;
    private static final int OUTPUT = 40;

    private static List<Integer> tokens(Executor executor, Budget budget, int[] prompt, int output) {
        try (EngineHarness engine = EngineHarness.gpuOnly(executor, budget, Preemption.SWAP)) {
            engine.submit("r", prompt, EngineHarness.greedy(output));
            engine.run();
            return engine.tokens("r");
        }
    }

    private static int[] prompt(int length) {
        return new SplittableRandom(4).ints(length, 3, 301).toArray();
    }

    @Test
    void aLongOutputHoldsTheBlocksOfItsWindow() {
        Budget budget = new Budget(64, 4, 64);
        int max = 0;
        try (EngineHarness engine = EngineHarness.gpuOnly(
                TestModels.executor(FAMILY, DataType.BFLOAT16, 64, 0, 1), budget, Preemption.SWAP)) {
            engine.submit("r", prompt(5), EngineHarness.greedy(240));
            while (!engine.loop.isIdle()) {
                engine.step();
                max = Math.max(max, engine.loop.stats().gpu().used());
            }
            assertThat(engine.tokens("r")).hasSize(240);
        }
        assertThat(max).isEqualTo(WINDOW_BLOCKS);
    }

    /** Two layers hold 205 tokens, in one group; six hold their window of 20 tokens, in three groups. */
    @Test
    void aLongOutputHoldsItsWindowInTheLayersThatHaveOne() {
        int max = 0;
        try (EngineHarness engine = EngineHarness.gpuOnly(
                TestModels.deepWithGroups(DataType.BFLOAT16, 64, 0, Readiness.allEarly()),
                new Budget(64, 4, 64),
                Preemption.SWAP)) {
            engine.submit("r", prompt(5), EngineHarness.greedy(200));
            while (!engine.loop.isIdle()) {
                engine.step();
                max = Math.max(max, engine.loop.stats().gpu().used());
            }
            assertThat(engine.tokens("r")).hasSize(200);
        }
        // 19 to 22 pages of four groups; without groups it would be 13 blocks
        assertThat(max).isBetween(Math.ceilDiv(13 + 3 * 2, 4), Math.ceilDiv(13 + 3 * 3, 4));
    }

    /** A pool of 96 tokens in all layers computes 150 tokens and writes 40, in chunks of 16. */
    @Test
    void groupsHoldARequestThatBlocksOfAllLayersDoNot() {
        int[] prompt = prompt(150);
        Executor whole = TestModels.deepWithGroups(DataType.BFLOAT16, 64, 0, Readiness.allEarly());
        List<Integer> expected = tokens(new WholeKvExecutor(whole), new Budget(256, 4, 256), prompt, OUTPUT);
        assertThat(expected).hasSize(OUTPUT);
        Executor small = TestModels.deepWithGroups(DataType.BFLOAT16, 6, 0, Readiness.allEarly());
        assertThat(tokens(small, new Budget(16, 4, 16), prompt, OUTPUT)).isEqualTo(expected);
    }

    /** A pool of 64 tokens computes a prompt of 200 in chunks of 16: 10 tokens before the chunk are attended to. */
    @Test
    void aPromptLongerThanThePoolIsComputed() {
        int[] prompt = prompt(200);
        List<Integer> expected = tokens(
                new WholeKvExecutor(TestModels.executor(FAMILY, DataType.BFLOAT16, 64, 0, 1)),
                new Budget(256, 4, 256),
                prompt,
                OUTPUT);
        assertThat(expected).hasSize(OUTPUT);
        Executor small = TestModels.executor(FAMILY, DataType.BFLOAT16, 4, 0, 1);
        assertThat(tokens(small, new Budget(16, 4, 16), prompt, OUTPUT)).isEqualTo(expected);
    }
}
