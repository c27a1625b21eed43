package dev.tandem.engine.strategy;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.engine.ContentExecutor;
import dev.tandem.engine.EngineHarness;
import dev.tandem.engine.executor.Readiness;
import dev.tandem.engine.request.FinishReason;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.PolicyScheduler;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.stream.LongStream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * The strategy changes between steps, on an executor with async scheduling: every request still gets its own tokens.
 */
class ChangingStrategiesTest {
    private static final Budget BUDGET = new Budget(200, 80, 200);
    private static final int REQUESTS = 100;

    static LongStream seeds() {
        return LongStream.range(0, 40);
    }

    @ParameterizedTest(name = "seed {0}")
    @MethodSource("seeds")
    void everyRequestGetsItsTokens(long seed) {
        SplittableRandom random = new SplittableRandom(seed);
        ContentExecutor executor =
                new ContentExecutor(3, 60 + random.nextInt(200), 8, 200, 200, 120, Readiness.random(seed));
        executor.allowsAsyncScheduling = true;
        List<Integer> prompts = new ArrayList<>();
        List<Integer> wanted = new ArrayList<>();
        try (EngineHarness engine =
                new EngineHarness(executor, PolicyScheduler.of(new ChangingStrategies(BUDGET, seed)), BUDGET)) {
            while (prompts.size() < REQUESTS || !engine.loop.isIdle()) {
                while (prompts.size() < REQUESTS && random.nextInt(3) > 0) {
                    submit(engine, prompts, wanted, random);
                }
                if (!prompts.isEmpty() && random.nextInt(20) == 0) {
                    engine.cancel("r" + random.nextInt(prompts.size()));
                }
                engine.step();
            }
            for (int i = 0; i < REQUESTS; i++) {
                var answer = engine.answers.get("r" + i);
                assertThat(answer.usage).as("r%d has ended", i).isNotNull();
                if (answer.reason == FinishReason.LENGTH) {
                    assertThat(answer.tokens).as("r%d", i).hasSize(wanted.get(i));
                }
                for (int k = 0; k < answer.tokens.size(); k++) {
                    assertThat(answer.tokens.get(k))
                            .as("r%d, token %d", i, k)
                            .isEqualTo(ContentExecutor.token(i, prompts.get(i) - 1 + k));
                }
            }
            assertThat(engine.loop.stats().gpu().used()
                            + engine.loop.stats().host().used())
                    .isZero();
        }
    }

    private static void submit(
            EngineHarness engine, List<Integer> prompts, List<Integer> wanted, SplittableRandom random) {
        int id = prompts.size();
        int prompt = 1 + random.nextInt(60);
        int max = 1 + random.nextInt(40);
        var sampling = SamplingParams.builder().temperature(0).maxTokens(max).ignoreEos(true);
        if (random.nextInt(3) == 0) { // ends at a stop token, which no plan can foresee
            sampling.stopTokenIds(Set.of(ContentExecutor.token(id, prompt - 1 + random.nextInt(40))));
        }
        engine.submit("r" + id, random.ints(prompt, 3, 301).toArray(), sampling.build());
        prompts.add(prompt);
        wanted.add(max);
    }
}
