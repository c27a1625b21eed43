package dev.tandem.cpu;

import static org.assertj.core.api.Assertions.assertThat;

<<<<<<< HEAD
import org.junit.jupiter.api.Test;

/** Some seconds of {@link FaultSoak}; {@code -Dtandem.soak.seconds=N} for more, {@code -Dtandem.soak.seed=N} for a seed that failed. */
class FaultSoakTest {
    @Test
    void faultsOfOneRequestTouchNoOther() throws InterruptedException {
        FaultSoak soak = new FaultSoak(Long.getLong("tandem.soak.seed", 20_261_124));
        assertThat(soak.run(Long.getLong("tandem.soak.seconds", 5))).as(soak.summary()).isEmpty();
        assertThat(soak.unseen()).as(soak.summary()).isEmpty();
        System.out.println(soak.summary());
=======
import dev.tandem.engine.batch.Chunk;
import dev.tandem.engine.batch.StepPlan;
import dev.tandem.engine.batch.StepResult;
import dev.tandem.engine.clock.Clock;
import dev.tandem.engine.execute.Executor;
import dev.tandem.engine.execute.ExecutorLimits;
import dev.tandem.engine.loop.Engine;
import dev.tandem.engine.loop.EngineConfig;
import dev.tandem.engine.observe.EngineListener;
import dev.tandem.engine.request.Request;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.engine.request.TextDecoder;
import dev.tandem.engine.request.TokenEvent;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.PolicyScheduler;
import dev.tandem.engine.strategy.Strategy;
import dev.tandem.engine.strategy.TestProfile;
import dev.tandem.model.config.DataType;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.LongPredicate;
import org.junit.jupiter.api.Test;

/**
 * Random faults among random requests: sinks and decoders that throw, rows that cannot be sampled, clients that leave. The
 * tokens of all others are those of a run without faults. {@code -Dsoak.minutes=120} goes on for so long, with other seeds.
 */
class FaultSoakTest {
    private static final long SEED = Long.getLong("soak.seed", 20_261_124);
    private static final double MINUTES = Double.parseDouble(System.getProperty("soak.minutes", "0"));
    private static final int REQUESTS = 60;
    private static final List<Strategy> STRATEGIES = List.of(Strategy.GPU_ONLY, Strategy.ASYNC_OVERLAP, Strategy.ASYMMETRIC);
    /** A prompt that begins with this token is of a request whose logits become NaN. */
    private static final int POISONED = 299;

    private enum Fault {
        NONE,
        SINK,
        LAST_EVENT,
        DECODER,
        DECODER_AT_THE_END,
        LOGITS,
        CANCEL
    }

    private record Wish(String id, int[] prompt, SamplingParams sampling, Fault fault, int at) {}

    private static final class Heard {
        final List<Integer> tokens = new ArrayList<>();
        final List<TokenEvent> ends = new ArrayList<>();
    }

    /** Loses the sequences of poisoned prompts, as if their logits were NaN, after some tokens. */
    private static final class Poison implements Executor {
        private final Executor executor;
        private final Map<Long, Integer> left = new ConcurrentHashMap<>();

        Poison(Executor executor) {
            this.executor = executor;
        }

        @Override
        public ExecutorLimits limits() {
            return executor.limits();
        }

        @Override
        public void submit(StepPlan plan) {
            plan.subBatches().stream().flatMap(batch -> batch.chunks().stream()).forEach(this::look);
            executor.submit(plan);
        }

        private void look(Chunk chunk) {
            if (chunk.start() == 0 && chunk.tokens()[0] == POISONED) {
                left.putIfAbsent(chunk.sequence(), 1 + chunk.tokens().length % 7);
            }
        }

        @Override
        public boolean computesInSubmit() {
            return executor.computesInSubmit();
        }

        @Override
        public StepResult poll() {
            StepResult result = executor.poll();
            List<StepResult.Sampled> sampled = new ArrayList<>(result.sampled());
            List<StepResult.Lost> lost = new ArrayList<>(result.lost());
            LongPredicate dies = key -> left.containsKey(key) && left.merge(key, -1, Integer::sum) <= 0;
            sampled.removeIf(one -> dies.test(one.sequence())
                    && lost.add(new StepResult.Lost(one.sequence(), StepResult.Cause.SAMPLING, "its logits are NaN", false)));
            return new StepResult(result.step(), sampled, result.trace(), result.parked(), lost, result.times());
        }

        @Override
        public void close() {
            executor.close();
        }
    }

    @Test
    void neighboursOfRequestsThatFailHaveTheirOwnTokens() throws Exception {
        long end = System.nanoTime() + (long) (MINUTES * 60e9);
        Map<String, Integer> seen = new TreeMap<>();
        long round = 0;
        do {
            for (Strategy strategy : STRATEGIES) {
                round(strategy, SEED + round++, seen);
            }
        } while (System.nanoTime() < end);
        System.out.println("seed " + SEED + ", " + round + " rounds: " + seen);
        for (Fault fault : Fault.values()) {
            assertThat(seen.keySet()).as("seed %d: %s", SEED, seen).anyMatch(what -> what.startsWith(fault + " "));
        }
    }

    private static void round(Strategy strategy, long seed, Map<String, Integer> seen) throws InterruptedException {
        SplittableRandom random = new SplittableRandom(seed);
        List<Wish> wishes = new ArrayList<>();
        for (int i = 0; i < REQUESTS; i++) {
            wishes.add(wish("r" + i, random));
        }
        Map<String, Heard> clean = serve(strategy, seed, wishes.stream().filter(wish -> wish.fault() == Fault.NONE).toList());
        Map<String, Heard> heard = serve(strategy, seed, wishes);
        for (Wish wish : wishes) {
            Heard mine = heard.get(wish.id());
            String what = "seed " + seed + ", " + strategy + ", " + wish;
            assertThat(mine.ends).as(what).hasSize(1);
            if (wish.fault() == Fault.NONE) {
                assertThat(mine.ends.getFirst()).as(what).isInstanceOf(TokenEvent.Finished.class);
                assertThat(mine.tokens).as(what).isEqualTo(clean.get(wish.id()).tokens);
            }
            seen.merge(wish.fault() + " " + mine.ends.getFirst().getClass().getSimpleName(), 1, Integer::sum);
        }
    }

    private static Wish wish(String id, SplittableRandom random) {
        Fault fault = random.nextInt(3) > 0 ? Fault.NONE : Fault.values()[random.nextInt(Fault.values().length)];
        int[] prompt = random.ints(1 + random.nextInt(60), 3, POISONED).toArray();
        if (fault == Fault.LOGITS) {
            prompt[0] = POISONED;
        }
        SamplingParams.Builder sampling = SamplingParams.builder().maxTokens(1 + random.nextInt(40)).seed(random.nextLong(1, Long.MAX_VALUE));
        switch (random.nextInt(4)) {
            case 0 -> sampling.temperature(0);
            case 1 -> sampling.temperature(0.8).topK(5).logprobs(3);
            case 2 -> sampling.temperature(1e-300).topP(0.9).presencePenalty(1);
            default -> sampling.minP(0.1).repetitionPenalty(1.2).minTokens(1);
        }
        return new Wish(id, prompt, sampling.build(), fault, 1 + random.nextInt(8));
    }

    private static Map<String, Heard> serve(Strategy strategy, long seed, List<Wish> wishes) throws InterruptedException {
        Map<String, Heard> heard = new ConcurrentHashMap<>();
        CountDownLatch ended = new CountDownLatch(wishes.size());
        Budget budget = new Budget(96, 16, 32);
        EngineConfig config = new EngineConfig(budget, Set.of(2), 256, REQUESTS, seed);
        try (Engine engine = new Engine(
                        config,
                        PolicyScheduler.of(strategy.policy(Strategy.Options.of(budget), TestProfile.withCpu(100))),
                        new Poison(TestModels.executor("llama31", DataType.BFLOAT16, 24, 40, 2)),
                        Clock.system(),
                        EngineListener.NONE)
                .start()) {
            for (Wish wish : wishes) {
                Heard mine = new Heard();
                heard.put(wish.id(), mine);
                engine.submit(request(wish, mine, engine, ended));
            }
            assertThat(ended.await(120, TimeUnit.SECONDS)).as("seed %d: %d unfinished", seed, ended.getCount()).isTrue();
            assertThat(engine.health()).as("seed %d", seed).isInstanceOf(Engine.Health.Serving.class);
            assertThat(engine.drain(Duration.ofSeconds(60))).as("seed %d", seed).isTrue();
            assertThat(engine.stats().gpuBlocksUsed() + engine.stats().hostBlocksUsed()).as("seed %d", seed).isZero();
            assertThat(engine.waiting()).as("seed %d", seed).isZero();
        }
        return heard;
    }

    private static Request request(Wish wish, Heard mine, Engine engine, CountDownLatch ended) {
        AtomicInteger decoded = new AtomicInteger();
        TextDecoder decoder = TextDecoder.of(
                token -> {
                    fail(wish.fault() == Fault.DECODER && decoded.incrementAndGet() == wish.at(), "a decoder");
                    return "";
                },
                () -> {
                    fail(wish.fault() == Fault.DECODER_AT_THE_END, "a decoder's end");
                    return "";
                });
        return new Request(wish.id(), wish.prompt(), wish.sampling(), 0, decoder, event -> {
            if (event instanceof TokenEvent.Token token) {
                mine.tokens.add(token.id());
                fail(wish.fault() == Fault.SINK && mine.tokens.size() == wish.at(), "a sink");
                if (wish.fault() == Fault.CANCEL && mine.tokens.size() == wish.at()) {
                    engine.cancel(wish.id());
                }
            } else {
                mine.ends.add(event);
                ended.countDown();
                fail(wish.fault() == Fault.LAST_EVENT, "a sink's last event");
            }
        });
    }

    private static void fail(boolean now, String what) {
        if (now) {
            throw new IllegalStateException(what + " that throws");
        }
>>>>>>> a
    }
}
