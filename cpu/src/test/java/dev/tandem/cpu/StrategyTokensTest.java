package dev.tandem.cpu;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.engine.EngineHarness;
import dev.tandem.engine.cost.CostModel;
import dev.tandem.engine.executor.Executor;
import dev.tandem.engine.executor.Readiness;
import dev.tandem.engine.request.FinishReason;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Policy;
import dev.tandem.engine.schedule.PolicyScheduler;
import dev.tandem.engine.schedule.Preemption;
import dev.tandem.engine.strategy.Shuffling;
import dev.tandem.engine.strategy.TestProfile;
import dev.tandem.engine.strategy.select.Strategy;
import dev.tandem.model.config.DataType;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.function.Supplier;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * A model of five or eight layers gives each request the tokens that it gets alone, under every strategy and random
 * plans, with every readiness, small pools, aborts, swaps and recomputation.
 *
 * <p>{@code -Dtandem.schedules=N} runs N schedules per case instead of 6. A failure names its seed.
 */
class StrategyTokensTest {
    private static final int SCHEDULES = Integer.getInteger("tandem.schedules", 6);
    private static final int PROMPTS = 24;
    private static final int MAX_OUTPUT = 40;
    private static final List<int[]> PROMPT = new ArrayList<>();
    /** By model, of each prompt. */
    private static final Map<Windows, List<List<Integer>>> BASELINE = new EnumMap<>(Windows.class);

    /** Which layers of the model have a window. */
    private enum Windows {
        NONE,
        ALL,
        SOME
    }

    private static final Map<String, Supplier<Readiness>> READINESS = Map.of(
            "all early", Readiness::allEarly, "all late", Readiness::allLate, "random", () -> Readiness.random(5));

    @BeforeAll
    static void answerEachPromptAlone() {
        SplittableRandom random = new SplittableRandom(3);
        for (int i = 0; i < PROMPTS; i++) {
            PROMPT.add(random.ints(1 + random.nextInt(50), 3, 301).toArray());
        }
        for (Windows windows : Windows.values()) {
            BASELINE.put(windows, alone(new WholeKvExecutor(model(windows, 16, 0, Readiness.allEarly()))));
        }
    }

    private static CpuExecutor model(Windows windows, int gpuBlocks, int hostBlocks, Readiness readiness) {
        return switch (windows) {
            case NONE -> TestModels.deep(DataType.BFLOAT16, gpuBlocks, hostBlocks, readiness);
            case ALL -> TestModels.deepWithWindow(DataType.BFLOAT16, gpuBlocks, hostBlocks, readiness);
            case SOME -> TestModels.deepWithGroups(DataType.BFLOAT16, gpuBlocks, hostBlocks, readiness);
        };
    }

    private static List<List<Integer>> alone(Executor executor) {
        List<List<Integer>> answers = new ArrayList<>();
        try (EngineHarness engine = EngineHarness.gpuOnly(executor, new Budget(64, 1, 64), Preemption.SWAP)) {
            for (int i = 0; i < PROMPTS; i++) {
                engine.submit("p" + i, PROMPT.get(i), EngineHarness.greedy(MAX_OUTPUT));
                engine.run();
                answers.add(engine.tokens("p" + i));
            }
        }
        return answers;
    }

    @AfterAll
    static void clear() {
        PROMPT.clear();
        BASELINE.clear();
    }

    static Stream<Arguments> cases() {
        List<String> names =
                new ArrayList<>(Stream.of(Strategy.values()).map(Strategy::flag).toList());
        names.add("random plans");
        return names.stream()
                .flatMap(name -> READINESS.keySet().stream()
                        .sorted()
                        .flatMap(readiness ->
                                LongStream.range(0, SCHEDULES).mapToObj(seed -> Arguments.of(name, readiness, seed))));
    }

    @ParameterizedTest(name = "{0}, {1}, seed {2}")
    @MethodSource("cases")
    void tokensAreThoseOfTheRequestAlone(String name, String readiness, long seed) {
        SplittableRandom random = new SplittableRandom(seed);
        // a third of the runs free KV behind a window in all layers, a third in some
        Windows windows = Windows.values()[(int) (seed % Windows.values().length)];
        int gpu = 6 + random.nextInt(10);
        int host = 6 + random.nextInt(20);
        Budget budget = new Budget(8 + random.nextInt(120), 1 + random.nextInt(8), 1 + random.nextInt(64));
        Policy policy = name.equals("random plans")
                ? new Shuffling(budget, Shuffling.Takes.EVERYTHING, seed)
                : Strategy.of(name).policy(Strategy.Options.of(budget), cost(random.nextInt(3)));
        try (EngineHarness engine = new EngineHarness(
                model(windows, gpu, host, READINESS.get(readiness).get()), PolicyScheduler.of(policy), budget)) {
            Map<String, Integer> prompts = new HashMap<>();
            for (int i = 0; i < 12; i++) {
                int prompt = random.nextInt(PROMPTS);
                prompts.put("r" + i, prompt);
                engine.submit("r" + i, PROMPT.get(prompt), EngineHarness.greedy(1 + random.nextInt(MAX_OUTPUT)));
                for (int steps = random.nextInt(6); steps > 0; steps--) {
                    engine.step();
                }
                if (random.nextInt(8) == 0) {
                    engine.cancel("r" + random.nextInt(i + 1));
                }
            }
            engine.run();
            prompts.forEach((id, prompt) -> {
                var answer = engine.answers.get(id);
                List<Integer> expected = BASELINE.get(windows).get(prompt).subList(0, answer.tokens.size());
                assertThat(answer.tokens).as("%s with prompt %d", id, prompt).isEqualTo(expected);
                assertThat(answer.reason).isIn(FinishReason.LENGTH, FinishReason.ABORT);
            });
            assertThat(engine.loop.stats().gpu().used()
                            + engine.loop.stats().host().used())
                    .isZero();
        }
    }

    /** A cost model in which the CPU is far slower than the GPU (0), or far faster (2). */
    private static CostModel cost(int speed) {
        return TestProfile.withCpu(Math.pow(10, 2 * speed - 1));
    }
}
