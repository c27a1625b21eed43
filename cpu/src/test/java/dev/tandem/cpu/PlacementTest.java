package dev.tandem.cpu;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.engine.EngineHarness;
import dev.tandem.engine.kv.PrefixCacheOptions;
import dev.tandem.engine.kv.PrefixCacheUse;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.engine.request.TokenLogprobs;
import dev.tandem.engine.sampling.PromptScorer;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.PolicyScheduler;
import dev.tandem.engine.schedule.Preemption;
import dev.tandem.engine.schedule.Scheduler;
import dev.tandem.engine.strategy.GpuOnly;
import dev.tandem.engine.strategy.Shuffling;
import dev.tandem.engine.strategy.TestProfile;
import dev.tandem.engine.strategy.select.Strategy;
import dev.tandem.model.config.DataType;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * A request's greedy tokens and the bits of their log-probabilities depend only on the request. The tier of its KV,
 * swaps, neighbours, chunks, preemption and sub-batches do not change them, nor does freeing KV behind a window.
 */
class PlacementTest {
    private static final int OUTPUT = 48;
    private static final int LOGPROBS = 20;
    private static final SamplingParams SAMPLING = SamplingParams.builder()
            .temperature(0)
            .maxTokens(OUTPUT)
            .ignoreEos(true)
            .logprobs(LOGPROBS)
            .build();
    private static final Budget WIDE = new Budget(256, 16, 256);

    /** One set-up in which the same requests run. */
    record SetUp(String name, Budget budget, int gpuBlocks, int hostBlocks, int threads, SchedulerMaker scheduler) {
        @Override
        public String toString() {
            return name;
        }
    }

    interface SchedulerMaker {
        Scheduler make(Budget budget);
    }

    private static SchedulerMaker gpu(Preemption preemption) {
        return budget -> PolicyScheduler.of(new GpuOnly(budget, preemption));
    }

    private static SchedulerMaker strategy(Strategy strategy) {
        return budget -> PolicyScheduler.of(strategy.policy(Strategy.Options.of(budget), TestProfile.withCpu(100)));
    }

    static Stream<SetUp> setUps() {
        return Stream.of(
                new SetUp("all on the GPU", WIDE, 64, 64, 2, gpu(Preemption.SWAP)),
                new SetUp("one thread", WIDE, 64, 64, 1, gpu(Preemption.SWAP)),
                new SetUp("three threads", WIDE, 64, 64, 3, gpu(Preemption.SWAP)),
                new SetUp("chunks of 7", new Budget(40, 16, 7), 64, 64, 2, gpu(Preemption.SWAP)),
                new SetUp("chunks of 1", new Budget(16, 16, 1), 64, 64, 2, gpu(Preemption.SWAP)),
                new SetUp("preempted by swap", WIDE, 13, 64, 2, gpu(Preemption.SWAP)),
                new SetUp("preempted by recomputation", WIDE, 13, 64, 2, gpu(Preemption.RECOMPUTE)),
                new SetUp("swap without room on the host", WIDE, 13, 3, 2, gpu(Preemption.SWAP)),
                new SetUp("all on the host", WIDE, 64, 64, 2, strategy(Strategy.SIMPLE_OFFLOAD)),
                new SetUp("two sub-batches on the host", WIDE, 64, 64, 2, strategy(Strategy.SYMMETRIC)),
                new SetUp("mixed", WIDE, 13, 64, 2, strategy(Strategy.ASYMMETRIC)),
                new SetUp("mixed, both pools tight", WIDE, 13, 16, 2, strategy(Strategy.ASYMMETRIC)),
                new SetUp("in flight", WIDE, 13, 64, 2, strategy(Strategy.ASYNC_OVERLAP)),
                new SetUp(
                        "migrating",
                        WIDE,
                        64,
                        64,
                        2,
                        budget -> PolicyScheduler.of(new Shuffling(budget, Shuffling.Takes.EVERYTHING, 42))));
    }

    static Stream<Arguments> familiesAndSetUps() {
        return Stream.of("llama31", "qwen3", "gemma3", "mistralwindow")
                .flatMap(family -> setUps().map(setUp -> Arguments.of(family, setUp)));
    }

    @ParameterizedTest
    @MethodSource("familiesAndSetUps")
    void tokensAreThoseOfTheRequestAlone(String family, SetUp setUp) {
        check(
                family,
                setUp,
                TestModels.executor(family, DataType.BFLOAT16, setUp.gpuBlocks(), setUp.hostBlocks(), setUp.threads()));
    }

    /** NaN that a failed request leaves in its blocks does not reach the next request that gets them. */
    @ParameterizedTest
    @MethodSource("setUps")
    void tokensDoNotDependOnWhatBlocksHeldBefore(SetUp setUp) {
        CpuExecutor executor = TestModels.executor(
                "llama31", DataType.BFLOAT16, setUp.gpuBlocks(), setUp.hostBlocks(), setUp.threads());
        executor.poisonPools();
        check("llama31", setUp, executor);
    }

    /** Every request runs three times; the first fills the prefix cache, and the others hit it. */
    @ParameterizedTest
    @MethodSource("familiesAndSetUps")
    void hitsInThePrefixCacheChangeNoBit(String family, SetUp setUp) {
        Map<String, int[]> prompts = prompts();
        Map<String, EngineHarness.Answer> expected = alone(family, prompts);
        CpuExecutor executor =
                TestModels.executor(family, DataType.BFLOAT16, setUp.gpuBlocks(), setUp.hostBlocks(), setUp.threads());
        try (EngineHarness engine = new EngineHarness(
                executor, setUp.scheduler().make(setUp.budget()), setUp.budget(), PrefixCacheOptions.on(1))) {
            for (int round = 0; round < 3; round++) {
                String suffix = "-" + round;
                prompts.forEach((id, prompt) -> engine.submit(id + suffix, prompt, SAMPLING));
                engine.run();
                prompts.keySet()
                        .forEach(id -> assertThat(bits(engine.answers.get(id + suffix)))
                                .as("log-probabilities of request %s%s, %s", id, suffix, setUp)
                                .isEqualTo(bits(expected.get(id))));
            }
            // in a small pool the prompts of one round evict those of the round before
            if (setUp.gpuBlocks() == 64) {
                assertThat(engine.loop.stats().prefixCache().hits())
                        .as("hits of %s", setUp)
                        .isPositive();
            }
        }
    }

    /** Prefixes that leave a small GPU pool, and come back from the host or are read there, under every strategy. */
    @ParameterizedTest
    @ValueSource(strings = {"llama31", "gemma3", "olmo3", "mistralwindow"})
    void prefixesThatAreCopiedBetweenTheTiersChangeNoBit(String family) {
        Map<String, int[]> prompts = prompts();
        Map<String, EngineHarness.Answer> expected = alone(family, prompts);
        List<SetUp> setUps = new ArrayList<>();
        setUps.add(new SetUp("gpu-only, swapping", WIDE, 16, 64, 2, gpu(Preemption.SWAP)));
        for (Strategy strategy : Strategy.values()) {
            setUps.add(new SetUp(strategy.flag(), WIDE, 16, 64, 2, strategy(strategy)));
        }
        for (int seed = 0; seed < 3; seed++) {
            long shuffled = seed;
            setUps.add(new SetUp(
                    "shuffling with seed " + seed,
                    WIDE,
                    16,
                    64,
                    2,
                    budget -> PolicyScheduler.of(new Shuffling(budget, Shuffling.Takes.EVERYTHING, shuffled))));
        }
        long copied = 0;
        long demoted = 0;
        long inPlace = 0;
        for (SetUp setUp : setUps) {
            CpuExecutor executor = TestModels.executor(
                    family, DataType.BFLOAT16, setUp.gpuBlocks(), setUp.hostBlocks(), setUp.threads());
            try (EngineHarness engine = new EngineHarness(
                    executor, setUp.scheduler().make(setUp.budget()), setUp.budget(), PrefixCacheOptions.on(1))) {
                for (int round = 0; round < 4; round++) {
                    String suffix = "-" + round;
                    prompts.forEach((id, prompt) -> {
                        engine.submit(id + suffix, prompt, SAMPLING);
                        for (int i = 0; i < 20; i++) {
                            engine.step();
                        }
                    });
                    engine.run();
                    prompts.keySet()
                            .forEach(id -> assertThat(bits(engine.answers.get(id + suffix)))
                                    .as("log-probabilities of request %s%s, %s", id, suffix, setUp)
                                    .isEqualTo(bits(expected.get(id))));
                }
                PrefixCacheUse use = engine.loop.stats().prefixCache();
                copied += use.copiedHits();
                demoted += use.demotions();
                inPlace += use.hostHits();
            }
        }
        assertThat(List.of(copied, demoted, inPlace))
                .as("tokens copied, blocks demoted, tokens hit in place")
                .allMatch(count -> count > 0);
    }

    /** A text that the engine wrote has the log-probabilities of its writing when it is scored as a prompt. */
    @ParameterizedTest
    @MethodSource("setUps")
    void promptsAreScoredAsTheirTokensWereSampled(SetUp setUp) {
        Map<String, int[]> prompts = prompts();
        Map<String, EngineHarness.Answer> written = alone("llama31", prompts);
        Map<String, PromptScorer> scorers = new LinkedHashMap<>();
        SamplingParams one =
                SamplingParams.builder().temperature(0).maxTokens(1).build();
        CpuExecutor executor = TestModels.executor(
                "llama31", DataType.BFLOAT16, setUp.gpuBlocks(), setUp.hostBlocks(), setUp.threads());
        try (EngineHarness engine =
                new EngineHarness(executor, setUp.scheduler().make(setUp.budget()), setUp.budget())) {
            prompts.forEach((id, prompt) -> {
                int[] text = IntStream.concat(
                                IntStream.of(prompt),
                                written.get(id).tokens.stream().mapToInt(Integer::intValue))
                        .toArray();
                scorers.put(id, new PromptScorer(text, LOGPROBS));
                engine.submit(id, text, one, scorers.get(id));
            });
            engine.run();
        }
        prompts.forEach((id, prompt) -> {
            PromptScorer scorer = scorers.get(id);
            assertThat(scorer.score(0)).isEmpty();
            EngineHarness.Answer scored = new EngineHarness.Answer();
            for (int i = 0; i < OUTPUT; i++) {
                int position = prompt.length + i;
                scored.logprobs.add(scorer.score(position).orElseThrow());
                assertThat(scorer.rank(position)).as("greedy tokens").isEqualTo(1);
            }
            assertThat(bits(scored)).as("scores of request %s, %s", id, setUp).isEqualTo(bits(written.get(id)));
        });
    }

    private static void check(String family, SetUp setUp, CpuExecutor executor) {
        Map<String, int[]> prompts = prompts();
        Map<String, EngineHarness.Answer> expected = alone(family, prompts);
        try (EngineHarness engine =
                new EngineHarness(executor, setUp.scheduler().make(setUp.budget()), setUp.budget())) {
            prompts.forEach((id, prompt) -> engine.submit(id, prompt, SAMPLING));
            engine.run();
            prompts.keySet().forEach(id -> {
                assertThat(engine.tokens(id)).as("request %s, %s", id, setUp).isEqualTo(expected.get(id).tokens);
                assertThat(bits(engine.answers.get(id)))
                        .as("log-probabilities of request %s, %s", id, setUp)
                        .isEqualTo(bits(expected.get(id)));
            });
            assertThat(engine.loop.stats().gpu().used()).isZero();
            assertThat(engine.loop.stats().host().used()).isZero();
            // windows of 11 tokens fit every pool
            if (setUp.name().startsWith("preempted") && !family.equals("mistralwindow")) {
                assertThat(engine.loop.stats().preemptions())
                        .as("the pool must be too small")
                        .isPositive();
            }
        }
    }

    /** The log-probabilities' bits: of the chosen token and of the most probable ones, which depend on all logits. */
    private static List<Integer> bits(EngineHarness.Answer answer) {
        List<Integer> bits = new ArrayList<>();
        for (TokenLogprobs logprobs : answer.logprobs) {
            bits.add(Float.floatToRawIntBits(logprobs.logprob()));
            for (float top : logprobs.topLogprobs()) {
                bits.add(Float.floatToRawIntBits(top));
            }
        }
        assertThat(bits).as("log-probabilities").hasSize(OUTPUT * (1 + LOGPROBS));
        return bits;
    }

    private static Map<String, EngineHarness.Answer> alone(String family, Map<String, int[]> prompts) {
        Map<String, EngineHarness.Answer> answers = new LinkedHashMap<>();
        try (EngineHarness engine = EngineHarness.gpuOnly(
                new WholeKvExecutor(TestModels.executor(family, DataType.BFLOAT16, 64, 0, 1)),
                WIDE,
                Preemption.RECOMPUTE)) {
            prompts.forEach((id, prompt) -> {
                engine.submit(id, prompt, SAMPLING);
                engine.run();
                answers.put(id, engine.answers.get(id));
            });
        }
        return answers;
    }

    private static Map<String, int[]> prompts() {
        SplittableRandom random = new SplittableRandom(7);
        Map<String, int[]> prompts = new LinkedHashMap<>();
        for (int length : new int[] {1, 5, 16, 17, 31, 48, 70, 3}) {
            prompts.put("r" + length, random.ints(length, 3, 301).toArray());
        }
        return prompts;
    }
}
