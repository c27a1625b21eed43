package dev.tandem.cpu;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.engine.EngineHarness;
import dev.tandem.engine.clock.Clock;
import dev.tandem.engine.loop.Engine;
import dev.tandem.engine.loop.EngineConfig;
import dev.tandem.engine.loop.SchedulingPolicy;
import dev.tandem.engine.observe.EngineListener;
import dev.tandem.engine.request.Request;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.engine.request.TextDecoder;
import dev.tandem.engine.request.TokenEvent;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.PolicyScheduler;
import dev.tandem.engine.schedule.Preemption;
import dev.tandem.engine.strategy.GpuOnly;
import dev.tandem.model.config.DataType;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** 2,000 random requests with random aborts on the real engine thread: each ends once, and no resource leaks. */
class SoakTest {
    private static final int REQUESTS = 2_000;
    private static final long SEED = 20_261_121;

    @Test
    void everyRequestEndsOnceAndNothingLeaks() throws Exception {
        long threads = tandemThreads();
        long files = openFiles();
        AtomicInteger doubleEnds = new AtomicInteger();
        CountDownLatch ended = new CountDownLatch(REQUESTS);
        Budget budget = new Budget(96, 24, 32);
        EngineConfig config = new EngineConfig(budget, Set.of(2), 256, REQUESTS, SEED, 0, SchedulingPolicy.PRIORITY);
        try (Engine engine = new Engine(
                        config,
                        PolicyScheduler.of(new GpuOnly(budget, Preemption.SWAP)),
                        TestModels.executor("llama31", DataType.BFLOAT16, 32, 20, 2),
                        Clock.system(),
                        EngineListener.NONE)
                .start()) {
            SplittableRandom random = new SplittableRandom(SEED);
            for (int i = 0; i < REQUESTS; i++) {
                String id = "r" + i;
                int abortAfter = random.nextInt(4) == 0 ? random.nextInt(12) : -1;
                engine.submit(request(id, random.split(), abortAfter, engine, ended, doubleEnds));
                if (abortAfter == 0) {
                    engine.cancel(id);
                }
            }
            assertThat(ended.await(240, TimeUnit.SECONDS))
                    .as("seed %d: %d unfinished", SEED, ended.getCount())
                    .isTrue();
            assertThat(engine.drain(Duration.ofSeconds(30))).isTrue();
            assertThat(doubleEnds).hasValue(0);
            assertThat(engine.stats().gpu().used()).isZero();
            assertThat(engine.stats().host().used()).isZero();
            assertThat(engine.waiting()).isZero();
            assertThat(engine.stats().preemptions())
                    .as("the pools must be so small that requests are preempted")
                    .isPositive();
        }
        assertThat(tandemThreads()).isEqualTo(threads);
        assertThat(openFiles()).isLessThanOrEqualTo(files);
    }

    private static Request request(
            String id,
            SplittableRandom random,
            int abortAfter,
            Engine engine,
            CountDownLatch ended,
            AtomicInteger doubleEnds) {
        int[] prompt = random.ints(1 + random.nextInt(60), 3, 301).toArray();
        SamplingParams.Builder sampling = SamplingParams.builder().maxTokens(1 + random.nextInt(60));
        switch (random.nextInt(4)) {
            case 0 -> sampling.temperature(0);
            case 1 -> sampling.temperature(0.8).topK(5).logprobs(3);
            case 2 -> sampling.temperature(1.3).topP(0.7).presencePenalty(1).frequencyPenalty(0.5);
            default -> sampling.minP(0.1).repetitionPenalty(1.2).seed(random.nextLong());
        }
        AtomicInteger seen = new AtomicInteger();
        AtomicInteger ends = new AtomicInteger();
        return new Request(id, prompt, sampling.build(), random.nextInt(3), TextDecoder.none(), event -> {
            if (event instanceof TokenEvent.Token) {
                if (seen.incrementAndGet() == abortAfter) {
                    engine.cancel(id);
                }
            } else if (ends.incrementAndGet() == 1) {
                ended.countDown();
            } else {
                doubleEnds.incrementAndGet();
            }
        });
    }

    @Test
    void openingAndClosingExecutorsDoesNotLeakMemory() throws IOException {
        cycle(5);
        long before = residentBytes();
        cycle(30);
        // each cycle maps, packs and allocates several MiB of native memory
        assertThat(residentBytes() - before).isLessThan(60L << 20);
    }

    private static void cycle(int times) {
        for (int i = 0; i < times; i++) {
            try (EngineHarness engine = EngineHarness.gpuOnly(
                    TestModels.executor("llama2", DataType.FLOAT32, 400, 400, 2),
                    new Budget(64, 4, 64),
                    Preemption.SWAP)) {
                engine.submit("r", new SplittableRandom(i).ints(200, 3, 301).toArray(), EngineHarness.greedy(4));
                engine.run();
            }
        }
    }

    private static long tandemThreads() {
        return Thread.getAllStackTraces().keySet().stream()
                .filter(thread -> thread.getName().startsWith("tandem"))
                .count();
    }

    /** Open files of models; 0 if the system has no /proc. */
    private static long openFiles() throws IOException {
        Path folder = Path.of("/proc/self/fd");
        if (!Files.exists(folder)) {
            return 0;
        }
        try (Stream<Path> files = Files.list(folder)) {
            return files.filter(file -> linksToModel(file)).count();
        }
    }

    private static boolean linksToModel(Path file) {
        try {
            return Files.readSymbolicLink(file).toString().contains("safetensors");
        } catch (IOException e) {
            return false;
        }
    }

    private static long residentBytes() throws IOException {
        Path statm = Path.of("/proc/self/statm");
        return Files.exists(statm) ? Long.parseLong(Files.readString(statm).split(" ")[1]) * 4096 : 0;
    }

    @Test
    void theSameSeedGivesTheSameTokens() {
        List<List<Integer>> runs = Stream.of(1, 2).map(run -> drawn(11)).toList();
        assertThat(runs.get(0)).isEqualTo(runs.get(1));
        assertThat(drawn(12)).isNotEqualTo(runs.get(0));
    }

    private static List<Integer> drawn(long seed) {
        try (EngineHarness engine = EngineHarness.gpuOnly(
                TestModels.executor("llama2", DataType.FLOAT32, 40, 0, 2), new Budget(64, 4, 64), Preemption.SWAP)) {
            engine.submit(
                    "r",
                    new int[] {5, 6, 7},
                    SamplingParams.builder()
                            .seed(seed)
                            .maxTokens(20)
                            .ignoreEos(true)
                            .build());
            engine.run();
            return engine.tokens("r");
        }
    }
}
