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
 * Random load with faults, under strategies that change every step. The load has cancellations and stop tokens. Workers
 * pause, die, stall or throw, and KV becomes NaN. Nothing may hang or leak, and no request may change another's tokens.
 * It runs for ten seconds, or {@code -Dtandem.soak.seconds=N}. {@code -Dtandem.soak.seed=N} repeats a failure.
 */
@Tag("gpu")
@Timeout(1500)
class HybridSoakTest {
    private static final int TEXTS = 64;
    /** Random prompts. The 64 with the most stable tokens are used; with only 64 candidates some seeds have too few. */
    private static final int CANDIDATES = 256;

    private static final int REQUESTS = 100;
    private static final int MAX_PROMPT_TOKENS = 60;
    private static final int MAX_TOKENS = 40;
    private static final int MAX_HOST_BLOCKS = (MAX_PROMPT_TOKENS + MAX_TOKENS - 1) / HostFormat.BLOCK_TOKENS + 1;
    /** A gap between the best two log-probabilities above which no placement changes the greedy token. */
    private static final double STABLE_GAP = 0.05;
    /** In a round with NaN, the mean number of steps between two poisoned rows. */
    private static final int STEPS_PER_POISON = 30;

    private static final Budget BUDGET = new Budget(200, 80, 200);

    /** @param stable number of leading tokens that are the same in every placement */
    private record Text(int[] prompt, List<Integer> tokens, int stable) {}

    /** @param max number of tokens; a stop token or a cancellation ends the request earlier */
    private record SubmittedRequest(Text text, int max) {}

    /** A fault of an attention worker in a round. After it the engine uses the GPU alone. */
    private enum Fault {
        NONE(10_000),
        DEATH(10_000, "tandem-attention-", "is gone"),
        STALL(300, "tandem-attention-", "has been at one task for"),
        THROW(10_000, "its attention on the CPU failed");

        final long watchdogMillis;
        /** Parts of the error message of requests that the fault ends. */
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
        assertThat(texts.stream().mapToInt(Text::stable).sum())
                .as("stable tokens")
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
                "soak, seed %d: %d rounds of %d requests; rounds by fault of a worker: %s; poisoned rows: %d%n",
                seed, rounds, REQUESTS, faults, poisoned);
    }

    /** Greedy tokens of the GPU alone, for the prompts with the most stable tokens. */
    private static List<Text> texts(SplittableRandom random) {
        CudaExecutor executor = CudaModelTest.executor("llama31", DataType.FLOAT16, 400, true);
        try (EngineHarness engine = EngineHarness.gpuOnly(executor, BUDGET, Preemption.SWAP)) {
            List<int[]> prompts = new ArrayList<>();
            for (int i = 0; i < CANDIDATES; i++) {
                prompts.add(random.ints(1 + random.nextInt(MAX_PROMPT_TOKENS), 3, 301)
                        .toArray());
                engine.submit(
                        "t" + i, prompts.get(i), greedy(MAX_TOKENS).logprobs(2).build());
            }
            engine.run();
            List<Text> texts = new ArrayList<>();
            for (int i = 0; i < CANDIDATES; i++) {
                var answer = engine.answers.get("t" + i);
                int stable = 0;
                while (stable < answer.logprobs.size() && gap(answer.logprobs.get(stable)) > STABLE_GAP) {
                    stable++;
                }
                texts.add(new Text(prompts.get(i), answer.tokens, stable));
            }
            texts.sort(Comparator.comparingInt(Text::stable).reversed());
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
     * @param poisons whether the KV of random rows becomes NaN
     * @return the number of poisoned rows
     */
    private static int round(
            long seed, long roundSeed, List<Text> texts, SplittableRandom random, Fault fault, boolean poisons) {
        List<UnreliableAttention> attention = new ArrayList<>();
        int pauses = 50 + random.nextInt(1000);
        CudaExecutor executor = CudaModelTest.executor(
                "llama31",
                CudaModelTest.options(
                        DataType.FLOAT16,
                        40 + random.nextInt(40),
                        true,
                        1 + random.nextInt(6),
                        fault.watchdogMillis,
                        random.nextBoolean()),
                real -> {
                    UnreliableAttention unreliable = new UnreliableAttention(real);
                    unreliable.pauses = pauses;
                    attention.add(unreliable);
                    return unreliable;
                });
        Policy policy =
                new UntilHostLost(new ChangingStrategies(BUDGET, roundSeed), new GpuOnly(BUDGET, Preemption.SWAP));
        int faultAt = random.nextInt(300);
        List<SubmittedRequest> submitted = new ArrayList<>();
        String round = "seed " + seed + ", round seed " + roundSeed + ", " + fault + (poisons ? " with NaN" : "");
        try (EngineHarness engine = new EngineHarness(executor, PolicyScheduler.of(policy), BUDGET)) {
            engine.failuresExpected = fault != Fault.NONE || poisons;
            for (int step = 0; submitted.size() < REQUESTS || !engine.loop.isIdle(); step++) {
                while (submitted.size() < REQUESTS && random.nextInt(3) > 0) {
                    submit(engine, "r" + submitted.size(), texts.get(random.nextInt(TEXTS)), random, submitted);
                }
                if (!submitted.isEmpty() && random.nextInt(20) == 0) {
                    engine.cancel("r" + random.nextInt(submitted.size()));
                }
                if (poisons && random.nextInt(STEPS_PER_POISON) == 0) {
                    executor.faults().poisonNextRow();
                }
                if (step == faultAt) {
                    begin(fault, executor, attention, 2 + random.nextInt(MAX_PROMPT_TOKENS));
                }
                engine.step();
            }
            // the blocks of a stalled worker's host token stay in quarantine
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
                check(answer, submitted.get(i), isNaN, fault, round + ", r" + i);
            }
            assertThat(lost)
                    .as("requests with NaN, %s", round)
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

    private static void submit(
            EngineHarness engine, String id, Text text, SplittableRandom random, List<SubmittedRequest> submitted) {
        int max = 1 + random.nextInt(MAX_TOKENS);
        SamplingParams.Builder sampling = greedy(max);
        if (random.nextInt(3) == 0) { // a stop token, which the scheduler cannot predict
            sampling.stopTokenIds(Set.of(text.tokens().get(random.nextInt(MAX_TOKENS))));
        }
        if (random.nextInt(10) == 0) {
            sampling.logprobs(1);
        }
        engine.submit(id, text.prompt(), sampling.build());
        submitted.add(new SubmittedRequest(text, max));
    }

    /** @param isNaN whether the request failed because its own KV became NaN */
    private static void check(
            EngineHarness.Answer answer, SubmittedRequest request, boolean isNaN, Fault fault, String who) {
        Text text = request.text();
        if (isNaN) {
            assertThat(answer.usage).as("%s ends once", who).isNull();
        } else if (answer.failure != null) {
            boolean isTimeout = fault == Fault.STALL && answer.failure.equals(HostTokenTracker.RESULT_TIMEOUT);
            assertThat(answer.failure)
                    .as(who)
                    .contains(isTimeout ? new String[] {HostTokenTracker.RESULT_TIMEOUT} : fault.messages);
        } else {
            assertThat(answer.usage).as("%s ended", who).isNotNull();
        }
        if (answer.reason == FinishReason.LENGTH) {
            assertThat(answer.tokens).as(who).hasSize(request.max());
        }
        int same = Math.min(text.stable(), answer.tokens.size());
        assertThat(answer.tokens.subList(0, same))
                .as(who)
                .isEqualTo(text.tokens().subList(0, same));
    }
}
