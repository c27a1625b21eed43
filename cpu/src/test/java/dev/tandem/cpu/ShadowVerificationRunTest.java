package dev.tandem.cpu;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.engine.clock.Clock;
import dev.tandem.engine.loop.Engine;
import dev.tandem.engine.loop.EngineConfig;
import dev.tandem.engine.observe.EngineListener;
import dev.tandem.engine.request.Request;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.engine.request.TextDecoder;
import dev.tandem.engine.request.TokenEvent;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.PolicyScheduler;
import dev.tandem.engine.strategy.TestProfile;
import dev.tandem.engine.strategy.select.Strategy;
import dev.tandem.model.config.DataType;
import java.util.List;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Shadow verification on the real engine thread: host-decoded tokens are computed again from GPU KV and compared. */
class ShadowVerificationRunTest {
    private static final int REQUESTS = 12;
    private static final long SEED = 9;

    @ParameterizedTest
    @EnumSource(
            value = Strategy.class,
            names = {"SIMPLE_OFFLOAD", "ASYNC_OVERLAP", "ASYMMETRIC"})
    @Timeout(60)
    void hostDecodedTokensMatchTheGpus(Strategy strategy) throws InterruptedException {
        Budget budget = new Budget(128, 16, 64);
        List<Double> differences = new CopyOnWriteArrayList<>();
        CountDownLatch fromHost = new CountDownLatch(1);
        CountDownLatch ended = new CountDownLatch(REQUESTS);
        EngineListener listener = new EngineListener() {
            @Override
            public void comparedWithGpu(double difference) {
                differences.add(difference);
                fromHost.countDown();
            }
        };
        try (Engine engine = new Engine(
                        new EngineConfig(budget, Set.of(), 256, 100, SEED, 1),
                        PolicyScheduler.of(strategy.policy(Strategy.Options.of(budget), TestProfile.withCpu(100))),
                        TestModels.executor("llama31", DataType.BFLOAT16, 16, 64, 2),
                        Clock.system(),
                        listener)
                .start()) {
            SplittableRandom random = new SplittableRandom(SEED);
            for (int i = 0; i < REQUESTS; i++) {
                SamplingParams sampling = SamplingParams.builder()
                        .temperature(i % 2)
                        .maxTokens(24)
                        .ignoreEos(true)
                        .build();
                int[] prompt = random.ints(10 + random.nextInt(50), 3, 301).toArray();
                engine.submit(new Request("r" + i, prompt, sampling, 0, TextDecoder.none(), event -> {
                    if (event instanceof TokenEvent.Finished) {
                        ended.countDown();
                    }
                }));
            }
            ended.await();
            assertThat(fromHost.await(30, TimeUnit.SECONDS))
                    .as("some token must come from the host")
                    .isTrue();
        }
        assertThat(differences).as("seed %d", SEED).allMatch(difference -> difference < 1e-3);
    }

    @Test
    void verificationDoesNotChangeASeededAnswer() throws InterruptedException {
        SamplingParams sampling = SamplingParams.builder()
                .temperature(1.5)
                .topP(0.95)
                .topK(80)
                .seed(SEED)
                .maxTokens(40)
                .ignoreEos(true)
                .build();
        List<Integer> plain = tokens(sampling, 0);
        assertThat(tokens(sampling, 1)).as("verified").isEqualTo(plain);
        assertThat(tokens(sampling.withLogprobs(5), 0))
                .as("with log-probabilities")
                .isEqualTo(plain);
        assertThat(tokens(sampling.withLogprobs(5), 1)).as("with both").isEqualTo(plain);
    }

    private static List<Integer> tokens(SamplingParams sampling, double shadowVerificationRate)
            throws InterruptedException {
        Budget budget = new Budget(128, 16, 64);
        List<Integer> tokens = new CopyOnWriteArrayList<>();
        CountDownLatch ended = new CountDownLatch(1);
        try (Engine engine = new Engine(
                        new EngineConfig(budget, Set.of(), 256, 100, SEED, shadowVerificationRate),
                        PolicyScheduler.of(
                                Strategy.SIMPLE_OFFLOAD.policy(Strategy.Options.of(budget), TestProfile.withCpu(100))),
                        TestModels.executor("llama31", DataType.BFLOAT16, 16, 64, 2),
                        Clock.system(),
                        EngineListener.NONE)
                .start()) {
            engine.submit(new Request("r", new int[] {5, 6, 7}, sampling, 0, TextDecoder.none(), event -> {
                if (event instanceof TokenEvent.Token token) {
                    tokens.add(token.id());
                } else {
                    ended.countDown();
                }
            }));
            ended.await();
        }
        return tokens;
    }
}
