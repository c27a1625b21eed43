package dev.tandem.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.cuda.hostattention.HostFormat;
import dev.tandem.cuda.hostattention.HostTokenTracker;
import dev.tandem.cuda.hostattention.UnreliableAttention;
import dev.tandem.engine.EngineHarness;
import dev.tandem.engine.request.FinishReason;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.engine.request.TokenLogprobs;
import dev.tandem.engine.sampling.TokenSampler;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Policy;
import dev.tandem.engine.schedule.PolicyScheduler;
import dev.tandem.engine.schedule.Preemption;
import dev.tandem.engine.strategy.ChangingStrategies;
import dev.tandem.engine.strategy.GpuOnly;
import dev.tandem.engine.strategy.UntilHostLost;
import dev.tandem.model.config.DataType;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/**
 * Random load with aborts, unforeseen ends, workers that pause, die, stall or throw, and rows whose KV becomes NaN,
 * under strategies that change: nothing hangs, leaks, or changes the text of another. {@code -Dtandem.soak.seconds=N}
 * for longer than the usual ten seconds, {@code -Dtandem.soak.seed=N} for a seed that failed.
 */
@Tag("gpu")
@Timeout(1500)
class HybridSoakTest {
    private static final int TEXTS = 64;
    /** Prompts tried, of which those with the most sure tokens are taken: of 64, some seeds have too few. */
    private static final int CANDIDATES = 256;

    private static final int REQUESTS = 100;
    private static final int LONGEST = 60;
    private static final int MAX_TOKENS = 40;
    private static final int MAX_HOST_BLOCKS = (LONGEST + MAX_TOKENS - 1) / HostFormat.BLOCK_TOKENS + 1;
    /** Log-probabilities of the best two tokens that lie further apart than placements can make them differ. */
    private static final double SURE = 0.05;
    /** In a round with NaN, a row in so many steps. */
    private static final int STEPS_PER_POISON = 30;

    private static final Budget BUDGET = new Budget(200, 80, 200);

    /** @param sure tokens before the first that might be another elsewhere */
    private record Text(int[] prompt, List<Integer> tokens, int sure) {}

    /** @param max tokens, fewer only by a stop token or a cancellation */
    private record Asked(Text text, int max) {}

    /** What befalls a worker in a round, after which the GPU is alone. */
    private enum Fault {
        NONE(10_000),
        DEATH(10_000, "tandem-attention-", "is gone"),
        STALL(300, "tandem-attention-", "has been at one task for"),
        THROW(10_000, "its attention on the CPU failed");

        final long watchdogMillis;
        /** What the requests that it ends are told, among other words. */
        final String[] messages;

        Fault(long watchdogMillis, String... messages) {
            this.watchdogMillis = watchdogMillis;
            this.messages = messages;
        }
    }

    @Test
    void soak() {
        long seed = Long.getLong("tandem.soak.seed", 11);
        long end = System.nanoTime() + Long.getLong("tandem.soak.seconds", 10) * 1_000_000_000L;
        SplittableRandom random = new SplittableRandom(seed);
        List<Text> texts = texts(random);
        assertThat(texts.stream().mapToInt(Text::sure).sum())
                .as("tokens that are sure")
                .isGreaterThan(TEXTS * 10);
        int rounds = 0;
        Map<Fault, Integer> faults = new EnumMap<>(Fault.class);
        int poisoned = 0;
        for (; System.nanoTime() < end; rounds++) {
            Fault fault = random.nextInt(3) == 0 ? Fault.values()[random.nextInt(Fault.values().length)] : Fault.NONE;
            faults.merge(fault, 1, Integer::sum);
            poisoned += round(seed, seed + rounds, texts, random, fault, random.nextInt(3) == 0);
        }
        System.out.printf(
                "soak, seed %d: %d rounds of %d requests, by what befell a worker: %s; rows of NaN: %d%n",
                seed, rounds, REQUESTS, faults, poisoned);
    }

    /** What a GPU alone answers. */
    private static List<Text> texts(SplittableRandom random) {
        CudaExecutor executor = CudaModelTest.executor("llama31", DataType.FLOAT16, 400, true);
        try (EngineHarness engine = EngineHarness.gpuOnly(executor, BUDGET, Preemption.SWAP)) {
            List<int[]> prompts = new ArrayList<>();
            for (int i = 0; i < CANDIDATES; i++) {
                prompts.add(random.ints(1 + random.nextInt(LONGEST), 3, 301).toArray());
                engine.submit(
                        "t" + i, prompts.get(i), greedy(MAX_TOKENS).logprobs(2).build());
            }
            engine.run();
            List<Text> texts = new ArrayList<>();
            for (int i = 0; i < CANDIDATES; i++) {
                var answer = engine.answers.get("t" + i);
                int sure = 0;
                while (sure < answer.logprobs.size() && gap(answer.logprobs.get(sure)) > SURE) {
                    sure++;
                }
                texts.add(new Text(prompts.get(i), answer.tokens, sure));
            }
            texts.sort(Comparator.comparingInt(Text::sure).reversed());
            return List.copyOf(texts.subList(0, TEXTS));
        }
    }

    private static double gap(TokenLogprobs logprobs) {
        return logprobs.topLogprobs()[0] - logprobs.topLogprobs()[1];
    }

    private static SamplingParams.Builder greedy(int tokens) {
        return SamplingParams.builder().temperature(0).maxTokens(tokens).ignoreEos(true);
    }

    /**
     * @param poisons whether KV becomes NaN now and then
     * @return how many rows it became for
     */
    private static int round(
            long seed, long roundSeed, List<Text> texts, SplittableRandom random, Fault fault, boolean poisons) {
        List<UnreliableAttention> attention = new ArrayList<>();
        int pauses = 50 + random.nextInt(1000);
        CudaExecutor executor = CudaModelTest.executor(
                "llama31",
                CudaModelTest.options(
                        DataType.FLOAT16, 40 + random.nextInt(40), true, 1 + random.nextInt(6), fault.watchdogMillis),
                real -> {
                    UnreliableAttention unreliable = new UnreliableAttention(real);
                    unreliable.pauses = pauses;
                    attention.add(unreliable);
                    return unreliable;
                });
        Policy policy =
                new UntilHostLost(new ChangingStrategies(BUDGET, roundSeed), new GpuOnly(BUDGET, Preemption.SWAP));
        int faultAt = random.nextInt(300);
        List<Asked> asked = new ArrayList<>();
        String round = "seed " + seed + ", round seed " + roundSeed + ", " + fault + (poisons ? " with NaN" : "");
        try (EngineHarness engine = new EngineHarness(executor, PolicyScheduler.of(policy), BUDGET)) {
            engine.failuresExpected = fault != Fault.NONE || poisons;
            for (int step = 0; asked.size() < REQUESTS || !engine.loop.isIdle(); step++) {
                while (asked.size() < REQUESTS && random.nextInt(3) > 0) {
                    submit(engine, "r" + asked.size(), texts.get(random.nextInt(TEXTS)), random, asked);
                }
                if (!asked.isEmpty() && random.nextInt(20) == 0) {
                    engine.cancel("r" + random.nextInt(asked.size()));
                }
                if (poisons && random.nextInt(STEPS_PER_POISON) == 0) {
                    executor.faults().poisonNextRow();
                }
                if (step == faultAt) {
                    begin(fault, executor, attention, 2 + random.nextInt(LONGEST));
                }
                engine.step();
            }
            // what a stalled worker holds stays taken
            int held = (int) attention.stream()
                    .filter(unreliable -> unreliable.stuck.getCount() == 0)
                    .count();
            assertThat(engine.loop.stats().host().used())
                    .as("host blocks, %s", round)
                    .isBetween(0, held * MAX_HOST_BLOCKS);
            assertThat(engine.loop.stats().gpu().used())
                    .as("GPU blocks, %s", round)
                    .isZero();
            int lost = 0;
            for (int i = 0; i < REQUESTS; i++) {
                EngineHarness.Answer answer = engine.answers.get("r" + i);
                boolean isNaN = answer.failure != null && answer.failure.contains(TokenSampler.NOT_FINITE);
                lost += isNaN ? 1 : 0;
                check(answer, asked.get(i), isNaN, fault, round + ", r" + i);
            }
            assertThat(lost)
                    .as("requests of NaN, %s", round)
                    .isLessThanOrEqualTo(executor.faults().poisonedRows());
            attention.forEach(unreliable -> unreliable.release.countDown());
            return executor.faults().poisonedRows();
        }
    }

    private static void begin(Fault fault, CudaExecutor executor, List<UnreliableAttention> attention, int context) {
        switch (fault) {
            case NONE -> {}
            case DEATH -> executor.faults().endWorkers();
            case STALL -> attention.forEach(unreliable -> unreliable.stalls = true);
            case THROW -> attention.forEach(unreliable -> unreliable.poisoned = context);
        }
    }

    private static void submit(EngineHarness engine, String id, Text text, SplittableRandom random, List<Asked> asked) {
        int max = 1 + random.nextInt(MAX_TOKENS);
        SamplingParams.Builder sampling = greedy(max);
        if (random.nextInt(3) == 0) { // ends by a token that no plan foresees
            sampling.stopTokenIds(Set.of(text.tokens().get(random.nextInt(MAX_TOKENS))));
        }
        if (random.nextInt(10) == 0) {
            sampling.logprobs(1);
        }
        engine.submit(id, text.prompt(), sampling.build());
        asked.add(new Asked(text, max));
    }

    /** @param isNaN whether it failed for the NaN of its own KV */
    private static void check(EngineHarness.Answer answer, Asked asked, boolean isNaN, Fault fault, String who) {
        Text text = asked.text();
        if (isNaN) {
            assertThat(answer.usage).as("%s is told once", who).isNull();
        } else if (answer.failure != null) {
            boolean inVain = fault == Fault.STALL && answer.failure.equals(HostTokenTracker.ANSWER_TIMEOUT);
            assertThat(answer.failure)
                    .as(who)
                    .contains(inVain ? new String[] {HostTokenTracker.ANSWER_TIMEOUT} : fault.messages);
        } else {
            assertThat(answer.usage).as("%s ended", who).isNotNull();
        }
        if (answer.reason == FinishReason.LENGTH) {
            assertThat(answer.tokens).as(who).hasSize(asked.max());
        }
        int same = Math.min(text.sure(), answer.tokens.size());
        assertThat(answer.tokens.subList(0, same))
                .as(who)
                .isEqualTo(text.tokens().subList(0, same));
    }
}
