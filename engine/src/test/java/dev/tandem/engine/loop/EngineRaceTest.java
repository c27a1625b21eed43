package dev.tandem.engine.loop;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.engine.ContentExecutor;
import dev.tandem.engine.clock.Clock;
import dev.tandem.engine.executor.Readiness;
import dev.tandem.engine.observe.EngineListener;
import dev.tandem.engine.request.Request;
import dev.tandem.engine.request.RequestException;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.engine.request.TextDecoder;
import dev.tandem.engine.request.TokenEvent;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.PolicyScheduler;
import dev.tandem.engine.schedule.Preemption;
import dev.tandem.engine.strategy.GpuOnly;
import dev.tandem.engine.strategy.TestProfile;
import dev.tandem.engine.strategy.select.Strategy;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Many threads submit and cancel while the engine is drained, closed, or dies. */
class EngineRaceTest {
    private static final long SEED = 20_261_124;
    private static final int THREADS = 6;
    private static final int REQUESTS = 120;
    private static final int ROUNDS = 6;

    private enum End {
        DRAIN,
        CLOSE,
        DEATH
    }

    /** Number of end events that each accepted request received. */
    private final Map<String, AtomicInteger> ends = new ConcurrentHashMap<>();

    @ParameterizedTest
    @EnumSource(End.class)
    void everyAcceptedRequestReceivesOneEndAndNoBlockIsLost(End end) throws InterruptedException {
        for (int round = 0; round < ROUNDS; round++) {
            round(end, SEED + round);
        }
    }

    private void round(End end, long seed) throws InterruptedException {
        ends.clear();
        Budget budget = new Budget(64, 12, 64);
        ContentExecutor executor = new ContentExecutor(2, 40, 40, 64, 40, Readiness.random(seed));
        AtomicBoolean dead = new AtomicBoolean();
        executor.losing = key -> {
            if (dead.get()) {
                throw new IllegalStateException("the device is gone");
            }
            return false;
        };
        boolean offloads = (seed & 1) == 0;
        var policy = offloads
                ? Strategy.ASYNC_OVERLAP.policy(Strategy.Options.of(budget), TestProfile.withCpu(100))
                : new GpuOnly(budget, Preemption.SWAP);
        EngineConfig config = new EngineConfig(budget, Set.of(), 40, REQUESTS * THREADS / 2, seed);
        SplittableRandom random = new SplittableRandom(seed);
        Engine engine =
                new Engine(config, PolicyScheduler.of(policy), executor, Clock.system(), EngineListener.NONE).start();
        try {
            CountDownLatch half = new CountDownLatch(THREADS * REQUESTS / 2);
            List<Thread> threads = IntStream.range(0, THREADS)
                    .mapToObj(thread -> {
                        SplittableRandom own = random.split();
                        return Thread.ofPlatform().start(() -> submit(engine, thread, own, half));
                    })
                    .toList();
            half.await();
            switch (end) {
                case DRAIN ->
                    assertThat(engine.drain(Duration.ofSeconds(60)))
                            .as("seed %d", seed)
                            .isTrue();
                case CLOSE -> engine.close();
                case DEATH -> {
                    dead.set(true);
                    // the executor fails only while a request runs; without one, the drain ends the engine
                    assertThat(engine.drain(Duration.ofSeconds(60)))
                            .as("seed %d", seed)
                            .isTrue();
                }
            }
            for (Thread thread : threads) {
                thread.join();
            }
        } finally {
            engine.close();
        }
        assertThat(ends)
                .as("seed %d", seed)
                .isNotEmpty()
                .allSatisfy((id, count) -> assertThat(count).as(id).hasValue(1));
        assertThat(engine.stats().gpu().used() + engine.stats().host().used())
                .as("seed %d", seed)
                .isZero();
        assertThat(engine.waiting()).as("seed %d", seed).isZero();
        assertThat(engine.health()).isInstanceOf(Engine.Health.Dead.class);
    }

    private void submit(Engine engine, int thread, SplittableRandom random, CountDownLatch half) {
        for (int i = 0; i < REQUESTS; i++) {
            String id = thread + "-" + i;
            AtomicInteger heard = new AtomicInteger();
            int cancelAfter = random.nextInt(4) == 0 ? random.nextInt(5) : -1;
            AtomicInteger tokens = new AtomicInteger();
            SamplingParams sampling = SamplingParams.builder()
                    .temperature(0)
                    .maxTokens(1 + random.nextInt(12))
                    .ignoreEos(true)
                    .build();
            Request request = new Request(
                    id,
                    random.ints(1 + random.nextInt(20), 3, 900).toArray(),
                    sampling,
                    0,
                    TextDecoder.none(),
                    event -> {
                        if (!(event instanceof TokenEvent.Token)) {
                            heard.incrementAndGet();
                        } else if (tokens.incrementAndGet() == cancelAfter) {
                            engine.cancel(id);
                        }
                    });
            try {
                ends.put(id, heard);
                engine.submit(request);
            } catch (RequestException refused) {
                assertThat(heard).as("%s was refused", id).hasValue(0);
                ends.remove(id);
            }
            if (cancelAfter == 0) {
                engine.cancel(thread + "-" + random.nextInt(i + 1));
            }
            half.countDown();
        }
    }
}
