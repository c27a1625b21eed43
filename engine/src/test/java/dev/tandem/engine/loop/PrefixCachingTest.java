package dev.tandem.engine.loop;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.engine.ContentExecutor;
import dev.tandem.engine.EngineHarness;
import dev.tandem.engine.executor.PiggybackedPrefill;
import dev.tandem.engine.executor.Readiness;
import dev.tandem.engine.kv.PrefixCacheOptions;
import dev.tandem.engine.kv.PrefixCacheUse;
import dev.tandem.engine.request.PrefixCaching;
import dev.tandem.engine.request.Usage;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Policy;
import dev.tandem.engine.schedule.PolicyScheduler;
import dev.tandem.engine.schedule.Preemption;
import dev.tandem.engine.step.Chunk;
import dev.tandem.engine.strategy.GpuOnly;
import dev.tandem.engine.strategy.TestProfile;
import dev.tandem.engine.strategy.select.Strategy;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import java.util.stream.IntStream;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/** When KV enters the prefix cache, and which requests hit it. Blocks have 4 tokens. */
class PrefixCachingTest {
    private static final int[] PROMPT = IntStream.range(0, 14).toArray();
    private static final Budget BUDGET = new Budget(40, 8, 40);

    private final ContentExecutor executor = new ContentExecutor(2, 40, 40, 40, 128, Readiness.allEarly());
    private final EngineHarness engine = new EngineHarness(
            executor, PolicyScheduler.of(new GpuOnly(BUDGET, Preemption.RECOMPUTE)), BUDGET, PrefixCacheOptions.on(1));
    private int submitted;

    private void submit(String id, int[] prompt, int output) {
        executor.prompt(submitted++, prompt, "");
        engine.submit(id, prompt, EngineHarness.greedy(output), PrefixCaching.SHARED);
    }

    private int cached(String id) {
        return engine.answers.get(id).usage.cachedTokens();
    }

    /** With async scheduling the request leaves before its step has a result. */
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void aPromptThatYieldsOneTokenIsHit(boolean async) {
        executor.allowsAsyncScheduling = async;
        submit("first", PROMPT, 1);
        engine.run();
        submit("second", PROMPT, 1);
        engine.run();
        assertThat(cached("first")).isZero();
        assertThat(cached("second")).isEqualTo(12);
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void theNextTurnHitsTheAnswerToo(boolean async) {
        executor.allowsAsyncScheduling = async;
        submit("first", PROMPT, 10);
        engine.run();
        int[] turn = IntStream.concat(
                        IntStream.concat(
                                IntStream.of(PROMPT),
                                engine.tokens("first").stream().mapToInt(Integer::intValue)),
                        IntStream.range(0, 9))
                .toArray();
        submit("second", turn, 3);
        engine.run();
        assertThat(cached("second")).as("of 23 tokens whose KV was computed").isEqualTo(20);
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void requestsThatArriveTogetherComputeTheirPrefixOnce(boolean async) {
        executor.allowsAsyncScheduling = async;
        int[] shared = IntStream.range(0, 24).toArray();
        for (int i = 0; i < 6; i++) {
            submit(
                    "r" + i,
                    IntStream.concat(IntStream.of(shared), IntStream.range(100 * i, 100 * i + 5))
                            .toArray(),
                    3);
        }
        engine.run();
        assertThat(cached("r0")).isZero();
        for (int i = 1; i < 6; i++) {
            assertThat(cached("r" + i)).isEqualTo(24);
        }
        assertThat(engine.loop.stats().gpu().used()).isZero();
    }

    /** Requests with one of two common prefixes, at random times; only the first one with a prefix computes it. */
    @ParameterizedTest(name = "{0}, seed {1}")
    @MethodSource("strategiesAndSeeds")
    void everyStrategyComputesAPendingPrefixOnce(Strategy strategy, long seed) {
        SplittableRandom random = new SplittableRandom(seed);
        Budget budget = new Budget(200, 16, 200);
        ContentExecutor large = new ContentExecutor(2, 400, 8, 200, 200, 160, Readiness.random(seed));
        large.allowsAsyncScheduling = random.nextBoolean();
        Policy policy = strategy.policy(Strategy.Options.of(budget), TestProfile.withCpu(100));
        EngineHarness harness =
                new EngineHarness(large, PolicyScheduler.of(policy), budget, PrefixCacheOptions.on(seed));
        int shared = 48 + random.nextInt(40);
        int own = 2 + random.nextInt(20);
        for (int i = 0; i < 12; i++) {
            int[] prompt = random.ints(shared + own, 0, 1000).toArray();
            int salt = i % 2;
            for (int at = 0; at < shared; at++) {
                prompt[at] = 100 * salt + at;
            }
            large.prompt(i, prompt, "salt " + salt);
            harness.submit("r" + i, prompt, EngineHarness.greedy(3), PrefixCaching.salted("salt " + salt));
            if (random.nextInt(3) == 0) {
                harness.step();
            }
        }
        harness.run();
        for (int i = 2; i < 12; i++) {
            assertThat(harness.answers.get("r" + i).usage.cachedTokens())
                    .as("seed %d, r%d of %d shared tokens", seed, i, shared)
                    .isGreaterThanOrEqualTo(shared / 8 * 8);
        }
    }

    static Stream<Arguments> strategiesAndSeeds() {
        return Arrays.stream(Strategy.values())
                .flatMap(strategy -> LongStream.range(0, 5).mapToObj(seed -> Arguments.of(strategy, seed)));
    }

    /** The second prompt has little in common with the first, so it does not wait. */
    @Test
    void aShortCommonPrefixIsNotWaitedFor() {
        submit("first", PROMPT, 2);
        submit("second", IntStream.range(0, 14).map(i -> i < 4 ? i : 50 + i).toArray(), 2);
        engine.step();
        assertThat(executor.plans.getFirst().rows()).isEqualTo(28);
        engine.run();
    }

    @Test
    void whatAnAbortedRequestWasToComputeIsComputedByAnother() {
        Budget chunks = new Budget(8, 8, 4);
        ContentExecutor small = new ContentExecutor(2, 40, 40, 40, 128, Readiness.allEarly());
        EngineHarness slow = new EngineHarness(
                small, PolicyScheduler.of(new GpuOnly(chunks, Preemption.RECOMPUTE)), chunks, PrefixCacheOptions.on(1));
        for (int i = 0; i < 2; i++) {
            small.prompt(i, PROMPT, "");
            slow.submit("r" + i, PROMPT, EngineHarness.greedy(2));
        }
        slow.step();
        assertThat(small.plans.getFirst().rows()).isEqualTo(4);
        slow.cancel("r0");
        slow.run();
        assertThat(slow.tokens("r1")).hasSize(2);
        assertThat(slow.answers.get("r1").usage.cachedTokens()).isEqualTo(4);
    }

    /** Each request that computes the common prefix is aborted, and the cache is emptied; the next in line goes on. */
    @Test
    void nobodyWaitsForEverBehindADeferral() {
        Budget chunks = new Budget(8, 8, 4);
        ContentExecutor small = new ContentExecutor(2, 40, 40, 40, 128, Readiness.allEarly());
        EngineHarness slow = new EngineHarness(
                small, PolicyScheduler.of(new GpuOnly(chunks, Preemption.RECOMPUTE)), chunks, PrefixCacheOptions.on(1));
        int aborted = 20;
        for (int i = 0; i < aborted + 4; i++) {
            small.prompt(i, PROMPT, "");
            slow.submit("r" + i, PROMPT, EngineHarness.greedy(2));
        }
        for (int i = 0; i < aborted; i++) {
            slow.step();
            assertThat(small.plans.getLast().subBatches().getFirst().chunks())
                    .extracting(Chunk::sequence)
                    .as("who computes when %d were aborted; the others wait", i)
                    .containsExactly((long) i);
            slow.cancel("r" + i);
            slow.resetPrefixCache();
        }
        slow.run();
        for (int i = aborted; i < aborted + 4; i++) {
            assertThat(slow.tokens("r" + i)).hasSize(2);
        }
    }

    /**
     * A request that comes back for an evicted prefix starts the copies to the host, although other evictions have
     * overwritten what is remembered of some of its blocks: with the first one alone, seed 4 copied nothing.
     */
    @Test
    void aRequestForAnEvictedPrefixIsNoticedWhateverElseWasEvicted() {
        for (int seed = 0; seed < 40; seed++) {
            Budget budget = new Budget(160, 8, 160);
            ContentExecutor small = new ContentExecutor(1, 64, 200, 160, 256, Readiness.allEarly());
            EngineHarness harness = new EngineHarness(
                    small,
                    PolicyScheduler.of(new GpuOnly(budget, Preemption.RECOMPUTE)),
                    budget,
                    PrefixCacheOptions.on(seed));
            int request = 0;
            for (int round = 0; round < 2; round++) {
                int[] prefix = IntStream.range(0, 80).map(i -> i * 7 % 90).toArray();
                prefix[0] = round;
                List<int[]> prompts = new ArrayList<>(List.of(prefix));
                for (int other = 0; other < 5; other++) {
                    int[] prompt = IntStream.range(0, 80).toArray();
                    prompt[0] = 100 + 10 * round + other;
                    prompts.add(prompt);
                }
                prompts.add(prefix);
                for (int[] prompt : prompts) {
                    small.prompt(request, prompt, "");
                    harness.submit("r" + request++, prompt, EngineHarness.greedy(8));
                    harness.run();
                }
            }
            assertThat(harness.loop.stats().prefixCache().copiedHits())
                    .as("seed %d", seed)
                    .isEqualTo(76);
        }
    }

    /** Runs two requests with a common prefix of 12 tokens, each under a policy of its own. */
    private PrefixCacheUse runTwo(Policy first, Policy second) {
        List<Policy> policy = new ArrayList<>(List.of(first));
        ContentExecutor both = new ContentExecutor(2, 40, 8, 40, 128, 40, Readiness.allEarly());
        EngineHarness harness = new EngineHarness(
                both,
                PolicyScheduler.of((state, why) -> policy.getFirst().draft(state, why)),
                BUDGET,
                PrefixCacheOptions.on(1));
        int[] prompt = IntStream.range(0, 20).toArray();
        both.prompt(0, prompt, "");
        harness.submit("first", prompt, EngineHarness.greedy(1));
        harness.run();
        policy.set(0, second);
        both.prompt(1, prompt, "");
        harness.submit("second", prompt, EngineHarness.greedy(9));
        harness.run();
        PrefixCacheUse use = harness.loop.stats().prefixCache();
        Usage usage = harness.answers.get("second").usage;
        assertThat(usage.cachedTokens()).isEqualTo(16);
        assertThat(usage.hostCachedTokens()).isEqualTo((int) use.foundOnHost());
        assertThat(use.foundOnGpu() + use.foundOnHost()).isEqualTo(16);
        return use;
    }

    private static Policy onTheHost() {
        return Strategy.FASTDECODE_PLUS.policy(Strategy.Options.of(BUDGET), TestProfile.withCpu(100));
    }

    private static Policy onTheGpu() {
        return new GpuOnly(BUDGET, Preemption.SWAP);
    }

    @Test
    void aPrefixOnTheHostIsReadWhereItIs() {
        PrefixCacheUse use = runTwo(onTheHost(), onTheHost());
        assertThat(use.hostHits()).isEqualTo(16);
        assertThat(use.foundOnHost()).isEqualTo(16);
    }

    @Test
    void aPrefixOnTheHostIsCopiedBackForTheGpu() {
        PrefixCacheUse use = runTwo(onTheHost(), onTheGpu());
        assertThat(use.copiedHits()).isEqualTo(16);
        assertThat(use.foundOnHost()).isEqualTo(16);
    }

    @Test
    void aPrefixOnTheGpuIsCopiedForTheHost() {
        PrefixCacheUse use = runTwo(onTheGpu(), onTheHost());
        assertThat(use.copiedHits()).isEqualTo(16);
        assertThat(use.foundOnGpu()).isEqualTo(16);
    }

    /** Half of the layers attend to 8 tokens, or all: of a copied prefix of 16 tokens they have the last 8 only. */
    @ParameterizedTest
    @CsvSource({"false, 8 0", "true, 8 0", "false, 8 8", "true, 8 8"})
    void aCopiedPrefixBehindAWindowIsHitWhereItWasCopiedTo(boolean toGpu, String ofLayers) {
        List<Integer> windows =
                Stream.of(ofLayers.split(" ")).map(Integer::valueOf).toList();
        List<Policy> policy = new ArrayList<>(List.of(toGpu ? onTheHost() : onTheGpu()));
        ContentExecutor windowed = new ContentExecutor(windows, 40, 8, 40, 128, 40, Readiness.allEarly());
        EngineHarness harness = new EngineHarness(
                windowed,
                PolicyScheduler.of((state, why) -> policy.getFirst().draft(state, why)),
                BUDGET,
                PrefixCacheOptions.on(1));
        int[] prompt = IntStream.range(0, 20).toArray();
        int[] shorter = IntStream.range(0, 12).toArray();
        List<Integer> copied = new ArrayList<>();
        List<int[]> prompts = List.of(prompt, prompt, prompt, shorter, shorter, prompt);
        for (int i = 0; i < prompts.size(); i++) {
            windowed.prompt(i, prompts.get(i), "");
            harness.submit("r" + i, prompts.get(i), EngineHarness.greedy(1));
            harness.run();
            policy.set(0, toGpu ? onTheGpu() : onTheHost());
            copied.add((int) harness.loop.stats().prefixCache().copiedHits());
        }
        assertThat(copied)
                .as("the shorter prompt needs blocks that were not copied for the longer one, and adds them")
                .containsExactly(0, 16, 16, 24, 24, 24);
        assertThat(harness.answers.values().stream().map(answer -> answer.usage.cachedTokens()))
                .containsExactly(0, 16, 16, 8, 8, 16);
    }

    /** Conversations take turns, and the GPU's pool holds two of the five. */
    @Test
    void conversationsThatWereEvictedComeBackFromTheHost() {
        ContentExecutor small = new ContentExecutor(2, 24, 8, 60, 128, 120, Readiness.allEarly());
        EngineHarness tight = new EngineHarness(
                small, PolicyScheduler.of(new GpuOnly(BUDGET, Preemption.SWAP)), BUDGET, PrefixCacheOptions.on(1));
        int turns = 0;
        for (int turn = 1; turn <= 4; turn++) {
            for (int talk = 0; talk < 5; talk++) {
                int[] prompt = IntStream.range(1000 * talk, 1000 * talk + 24 + 8 * turn)
                        .map(i -> i % 997)
                        .toArray();
                small.prompt(turns, prompt, "");
                tight.submit("t" + turns++, prompt, EngineHarness.greedy(2));
                tight.run();
            }
        }
        PrefixCacheUse use = tight.loop.stats().prefixCache();
        assertThat(use.demotions()).isPositive();
        assertThat(use.copiedHits()).as("of %s", use).isGreaterThan(200);
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void aFailedRequestIsNotHit(boolean async) {
        executor.allowsAsyncScheduling = async;
        engine.failuresExpected = true;
        executor.failing = key -> key == 0;
        submit("failed", PROMPT, async ? 1 : 5);
        engine.run();
        assertThat(engine.answers.get("failed").failure).isEqualTo("the logits are NaN");
        submit("second", PROMPT, 1);
        engine.run();
        assertThat(cached("second")).isZero();
    }

    /** The 10 blocks of the pool cannot hold both sequences, so the later one is preempted and hits its own KV. */
    @Test
    void aPreemptedRequestHitsWhatIsLeftOfIt() {
        ContentExecutor small = new ContentExecutor(2, 10, 0, 40, 40, Readiness.allEarly());
        EngineHarness tight = new EngineHarness(
                small,
                PolicyScheduler.of(new GpuOnly(BUDGET, Preemption.RECOMPUTE, 0, PiggybackedPrefill.NONE, false)),
                BUDGET,
                PrefixCacheOptions.on(1));
        int[] other = IntStream.range(100, 114).toArray();
        small.prompt(0, PROMPT, "");
        small.prompt(1, other, "");
        tight.submit("first", PROMPT, EngineHarness.greedy(14));
        tight.submit("second", other, EngineHarness.greedy(14));
        tight.run();
        assertThat(tight.loop.stats().preemptions()).isPositive();
        assertThat(tight.answers.get("second").usage.cachedTokens())
                .as("counted at the first start only")
                .isZero();
        assertThat(small.plans.stream()
                        .flatMap(plan -> plan.subBatches().stream())
                        .flatMap(batch -> batch.chunks().stream())
                        .filter(chunk -> chunk.sequence() == 1 && !chunk.decodes())
                        .mapToInt(chunk -> chunk.start()))
                .as("starts of the second prompt's computations")
                .anyMatch(start -> start > 0);
    }
}
