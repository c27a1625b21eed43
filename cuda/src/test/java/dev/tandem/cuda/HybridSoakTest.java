package dev.tandem.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.engine.EngineHarness;
import dev.tandem.engine.request.FinishReason;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.engine.request.TokenLogprobs;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Policy;
import dev.tandem.engine.schedule.PolicyScheduler;
import dev.tandem.engine.schedule.Preemption;
import dev.tandem.engine.strategy.ChangingStrategies;
import dev.tandem.engine.strategy.GpuOnly;
import dev.tandem.engine.strategy.UntilHostLost;
import dev.tandem.model.config.DataType;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/**
 * Random load with aborts, ends that nobody foresees and workers that die, under strategies that change: nothing hangs, leaks, or
 * changes a text. {@code -Dtandem.soak.seconds=N} for longer than the usual ten seconds, {@code -Dtandem.soak.seed=N} for a seed that failed.
 */
@Tag("gpu")
@Timeout(1500)
class HybridSoakTest {
    private static final int TEXTS = 64;
    private static final int REQUESTS = 100;
    private static final int LONGEST = 60;
    /** Log-probabilities of the best two tokens that lie further apart than placements can make them differ. */
    private static final double SURE = 0.05;
    private static final Budget BUDGET = new Budget(200, 80, 200);

    /** @param sure tokens before the first that might be another elsewhere */
    private record Text(int[] prompt, List<Integer> tokens, int sure) {}

    /** @param most tokens, fewer only by a stop token or a cancellation */
    private record Asked(Text text, int most) {}

    @Test
    void soak() {
        long seed = Long.getLong("tandem.soak.seed", 11);
        long end = System.nanoTime() + Long.getLong("tandem.soak.seconds", 10) * 1_000_000_000L;
        SplittableRandom random = new SplittableRandom(seed);
        List<Text> texts = texts(random);
        assertThat(texts.stream().mapToInt(Text::sure).sum()).as("tokens that are sure").isGreaterThan(TEXTS * 10);
        int rounds = 0;
        int kills = 0;
        for (; System.nanoTime() < end; rounds++) {
            boolean kill = random.nextInt(5) == 0;
            kills += kill ? 1 : 0;
            round(seed, seed + rounds, texts, random, kill);
        }
        System.out.printf("soak, seed %d: %d rounds of %d requests, workers died in %d%n", seed, rounds, REQUESTS, kills);
    }

    /** What a GPU alone answers. */
    private static List<Text> texts(SplittableRandom random) {
        CudaExecutor executor = CudaModelTest.executor("llama31", DataType.FLOAT16, 400, true);
        try (EngineHarness engine = EngineHarness.gpuOnly(executor, BUDGET, Preemption.SWAP)) {
            List<int[]> prompts = new ArrayList<>();
            for (int i = 0; i < TEXTS; i++) {
                prompts.add(random.ints(1 + random.nextInt(LONGEST), 3, 301).toArray());
                engine.submit("t" + i, prompts.get(i), greedy(40).logprobs(2).build());
            }
            engine.run();
            List<Text> texts = new ArrayList<>();
            for (int i = 0; i < TEXTS; i++) {
                var answer = engine.answers.get("t" + i);
                int sure = 0;
                while (sure < answer.logprobs.size() && gap(answer.logprobs.get(sure)) > SURE) {
                    sure++;
                }
                texts.add(new Text(prompts.get(i), answer.tokens, sure));
            }
            return texts;
        }
    }

    private static double gap(TokenLogprobs logprobs) {
        return logprobs.topLogprobs()[0] - logprobs.topLogprobs()[1];
    }

    private static SamplingParams.Builder greedy(int tokens) {
        return SamplingParams.builder().temperature(0).maxTokens(tokens).ignoreEos(true);
    }

    private static void round(long seed, long roundSeed, List<Text> texts, SplittableRandom random, boolean kill) {
        CudaExecutor executor = CudaModelTest.executor(
                "llama31", DataType.FLOAT16, 40 + random.nextInt(40), true, 1 + random.nextInt(6), 10_000);
        Policy policy = new UntilHostLost(new ChangingStrategies(BUDGET, roundSeed), new GpuOnly(BUDGET, Preemption.SWAP));
        int killAt = kill ? random.nextInt(300) : -1;
        List<Asked> asked = new ArrayList<>();
        try (EngineHarness engine = new EngineHarness(executor, PolicyScheduler.of(policy), BUDGET)) {
            engine.failuresExpected = kill;
            for (int step = 0; asked.size() < REQUESTS || !engine.loop.isIdle(); step++) {
                while (asked.size() < REQUESTS && random.nextInt(3) > 0) {
                    submit(engine, "r" + asked.size(), texts.get(random.nextInt(TEXTS)), random, asked);
                }
                if (!asked.isEmpty() && random.nextInt(20) == 0) {
                    engine.cancel("r" + random.nextInt(asked.size()));
                }
                if (step == killAt) {
                    executor.endWorkers();
                }
                engine.step();
            }
            assertThat(engine.loop.stats().hostBlocksUsed()).as("host blocks, seed %d", seed).isZero();
            assertThat(engine.loop.stats().gpuBlocksUsed()).as("GPU blocks, seed %d", seed).isZero();
            for (int i = 0; i < REQUESTS; i++) {
                check(engine.answers.get("r" + i), asked.get(i), "seed " + seed + ", round seed " + roundSeed + ", r" + i);
            }
        }
    }

    private static void submit(EngineHarness engine, String id, Text text, SplittableRandom random, List<Asked> asked) {
        int most = 1 + random.nextInt(40);
        SamplingParams.Builder sampling = greedy(most);
        if (random.nextInt(3) == 0) { // ends by a token that no plan foresees
            sampling.stopTokenIds(Set.of(text.tokens().get(random.nextInt(40))));
        }
        if (random.nextInt(10) == 0) {
            sampling.logprobs(1);
        }
        engine.submit(id, text.prompt(), sampling.build());
        asked.add(new Asked(text, most));
    }

    private static void check(EngineHarness.Answer answer, Asked asked, String who) {
        Text text = asked.text();
        if (answer.failure != null) {
            assertThat(answer.failure).as(who).contains("tandem-attention-").contains("is gone");
        } else {
            assertThat(answer.usage).as("%s ended", who).isNotNull();
        }
        if (answer.reason == FinishReason.LENGTH) {
            assertThat(answer.tokens).as(who).hasSize(asked.most());
        }
        int same = Math.min(text.sure(), answer.tokens.size());
        assertThat(answer.tokens.subList(0, same)).as(who).isEqualTo(text.tokens().subList(0, same));
    }
}
