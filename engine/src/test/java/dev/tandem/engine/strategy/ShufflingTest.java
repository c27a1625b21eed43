package dev.tandem.engine.strategy;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.engine.ContentExecutor;
import dev.tandem.engine.EngineHarness;
import dev.tandem.engine.executor.Readiness;
import dev.tandem.engine.kv.KvTier;
import dev.tandem.engine.kv.PrefixCacheOptions;
import dev.tandem.engine.kv.PrefixCacheUse;
import dev.tandem.engine.kv.Swap;
import dev.tandem.engine.request.FinishReason;
import dev.tandem.engine.request.PrefixCaching;
import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Decision;
import dev.tandem.engine.schedule.PlanCommitter;
import dev.tandem.engine.schedule.Policy;
import dev.tandem.engine.schedule.PolicyScheduler;
import dev.tandem.engine.schedule.Scheduler;
import dev.tandem.engine.schedule.SchedulerState;
import dev.tandem.engine.schedule.StepDraft;
import dev.tandem.engine.step.AttentionSite;
import dev.tandem.engine.step.Chunk;
import dev.tandem.engine.step.StepPlan;
import dev.tandem.engine.step.StepResult;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.stream.Collectors;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * Random steps over a prefix cache, windows and pools that hold few sequences. The harness checks the blocks after each
 * step, {@link CountChecks} what its draft has counted, {@link ContentExecutor} each plan and each KV read.
 * {@code -Dtandem.schedules=N} runs N seeds.
 */
class ShufflingTest {
    private static final int SCHEDULES = Integer.getInteger("tandem.schedules", 150);
    private static final int REQUESTS = 60;
    private static final int CONTEXT = 48;
    private static final int MAX_PROMPT = 36;

    /** Tokens hit on the GPU, on the host and copied, and host blocks of demoted prefixes, over all seeds. */
    private static final long[] SEEN = new long[4];

    private static int runs;
    /** Plans after which exactly as many blocks were free as their draft had counted. */
    private static long exactCounts;
    /** Tokens that offloaded prefills have copied to the host, over all seeds; one counts in each group of layers. */
    private static long offloaded;

    static LongStream seeds() {
        return LongStream.range(0, SCHEDULES);
    }

    /** The windows of 6 layers: none, one for all, or groups of layers with different ones. */
    private static List<Integer> windows(SplittableRandom random) {
        int window = 1 + random.nextInt(20);
        return switch (random.nextInt(4)) {
            case 0 -> Collections.nCopies(6, 0);
            case 1 -> Collections.nCopies(6, window);
            case 2 -> List.of(window, window, 0, window, window, 0);
            default -> List.of(window, 2 * window, 0, window, 2 * window, 0);
        };
    }

    @ParameterizedTest(name = "seed {0}")
    @MethodSource("seeds")
    void everyRequestGetsItsTokens(long seed) {
        SplittableRandom random = new SplittableRandom(seed);
        int sequences = 2 + random.nextInt(12);
        Budget budget = new Budget(sequences + random.nextInt(80), sequences, 40);
        int gpuBlocks = CONTEXT / 4 + random.nextInt(20);
        int hostBlock = 4 << random.nextInt(3);
        int hostBlocks = 1 + random.nextInt(3 * CONTEXT / hostBlock);
        ContentExecutor executor = new ContentExecutor(
                windows(random),
                gpuBlocks,
                hostBlock,
                hostBlocks,
                budget.maxBatchTokens(),
                CONTEXT,
                Readiness.random(seed));
        executor.allowsAsyncScheduling = random.nextBoolean();
        Shuffling.Takes takes = Shuffling.Takes.values()[random.nextInt(2)];
        CountChecks scheduler = new CountChecks(new Shuffling(budget, takes, seed), hostBlock);
        try (EngineHarness engine =
                new EngineHarness(executor, scheduler, budget, new PrefixCacheOptions(true, seed, -1))) {
            List<int[]> texts = new ArrayList<>();
            while (texts.size() < REQUESTS || !engine.loop.isIdle()) {
                while (texts.size() < REQUESTS && random.nextInt(3) > 0) {
                    submit(engine, executor, texts, random);
                }
                if (!texts.isEmpty() && random.nextInt(20) == 0) {
                    engine.cancel("r" + random.nextInt(texts.size()));
                }
                if (random.nextInt(100) == 0) {
                    engine.resetPrefixCache();
                }
                engine.step();
                assertThat(executor.plans.size())
                        .as("the engine does not come to an end")
                        .isLessThan(20_000);
            }
            for (int i = 0; i < REQUESTS; i++) {
                EngineHarness.Answer answer = engine.answers.get("r" + i);
                assertThat(answer.reason).as("r%d has ended", i).isNotNull();
                int prompt = answer.usage.promptTokens();
                int[] output = Arrays.copyOfRange(texts.get(i), prompt, texts.get(i).length);
                assertThat(answer.tokens.stream().mapToInt(token -> token).toArray())
                        .as("r%d", i)
                        .isEqualTo(Arrays.copyOf(output, answer.tokens.size()));
                if (answer.reason == FinishReason.LENGTH) {
                    assertThat(answer.tokens).as("r%d", i).hasSize(output.length);
                }
            }
            assertThat(engine.loop.stats().gpu().used()
                            + engine.loop.stats().host().used())
                    .isZero();
            long bytes = executor.limits().kvBytesPerToken();
            int groups = executor.limits().layout().groups();
            assertThat(engine.loop.stats().gpu().copiedBytes())
                    .isEqualTo(scheduler.copied(KvTier.GPU) * bytes / groups);
            assertThat(engine.loop.stats().host().copiedBytes())
                    .isEqualTo(scheduler.copied(KvTier.HOST) * bytes / groups);
            count(engine.loop.stats().prefixCache());
        }
    }

    /**
     * Drafts count what their commit does: as many blocks are free afterwards as they say. Blocks that others copy from
     * count as taken while the step is planned, and so do those of sequences that are to return. What is copied is what
     * the plans say.
     */
    private static final class CountChecks implements Scheduler {
        private final List<StepDraft> drafts = new ArrayList<>();
        private final PolicyScheduler scheduler;
        private final int hostBlock;
        /** Tokens that were copied to each tier; a token counts in each group of layers. */
        private final Map<KvTier, Long> copied = new EnumMap<>(KvTier.class);

        CountChecks(Policy policy, int hostBlock) {
            this.hostBlock = hostBlock;
            scheduler = PolicyScheduler.of((state, why) -> {
                drafts.add(policy.draft(state, why));
                return drafts.getLast();
            });
        }

        @Override
        public StepPlan plan(SchedulerState state, PlanCommitter committer) {
            StepPlan plan = scheduler.plan(state, committer);
            StepDraft draft = drafts.removeLast();
            boolean exact = draft.paused().isEmpty() && !copiesPrefixes(draft, plan);
            exactCounts += exact ? 1 : 0;
            for (KvTier tier : KvTier.values()) {
                int counted = tier == KvTier.GPU ? draft.freeGpu() + draft.stagingBlocks() : draft.freeHost();
                assertThat(state.kv().pool(tier).free())
                        .as("blocks of %s that are free after step %d", tier, plan.step())
                        .isBetween(counted, exact ? counted : Integer.MAX_VALUE);
            }
            plan.swaps().forEach(swap -> copied.merge(swap.to(), (long) swap.tokens(), Long::sum));
            plan.subBatches()
                    .forEach(batch -> batch.chunks().stream()
                            .filter(chunk -> chunk.site() == AttentionSite.GPU_PREFILL_OFFLOAD)
                            .forEach(this::countOffloaded));
            for (KvTier tier : KvTier.values()) {
                assertThat(state.copiedTokens(tier))
                        .as("tokens copied to %s after step %d", tier, plan.step())
                        .isEqualTo(copied(tier));
            }
            return plan;
        }

        long copied(KvTier to) {
            return copied.getOrDefault(to, 0L);
        }

        /** Of each group's tokens, those before the chunk return, and those in the chunk's host blocks leave. */
        private void countOffloaded(Chunk chunk) {
            int end = chunk.start() + chunk.rows();
            for (int group = 0; group < chunk.kv().size(); group++) {
                for (int token = chunk.kv(group).first() * hostBlock; token < end; token++) {
                    boolean returns = token < chunk.start();
                    boolean leaves = token / hostBlock >= chunk.start() / hostBlock;
                    copied.merge(KvTier.GPU, returns ? 1L : 0, Long::sum);
                    copied.merge(KvTier.HOST, leaves ? 1L : 0, Long::sum);
                    offloaded += leaves ? 1 : 0;
                }
            }
        }

        private static boolean copiesPrefixes(StepDraft draft, StepPlan plan) {
            Set<Long> moved = Stream.of(draft.outs(), draft.ins())
                    .flatMap(List::stream)
                    .map(Sequence::key)
                    .collect(Collectors.toSet());
            return plan.swaps().stream()
                    .anyMatch(swap -> swap.sequence() != Swap.NO_SEQUENCE && !moved.contains(swap.sequence()));
        }

        @Override
        public Decision completed(StepResult result, long nanos) {
            return scheduler.completed(result, nanos);
        }
    }

    private static void count(PrefixCacheUse use) {
        runs++;
        long[] counts = {use.gpuHits(), use.hostHits(), use.copiedHits(), use.demotions()};
        Arrays.setAll(SEEN, i -> SEEN[i] + counts[i]);
    }

    /** A full sample must use the cache in every way, or it tests less than it claims. */
    @AfterAll
    static void prefixesWereHitCopiedAndDemoted() {
        if (runs >= 150) {
            assertThat(Arrays.stream(SEEN).min().orElseThrow())
                    .as(Arrays.toString(SEEN))
                    .isGreaterThan(500);
            assertThat(exactCounts).isGreaterThan(10_000);
            assertThat(offloaded).isGreaterThan(10_000);
        }
    }

    /** Half of the prompts begin as an earlier request did, its answer included. */
    private static void submit(
            EngineHarness engine, ContentExecutor executor, List<int[]> texts, SplittableRandom random) {
        long key = texts.size();
        int[] prompt = random.ints(1 + random.nextInt(MAX_PROMPT), 0, 1000).toArray();
        if (key > 0 && random.nextBoolean()) {
            int[] earlier = texts.get(random.nextInt(texts.size()));
            System.arraycopy(earlier, 0, prompt, 0, Math.min(prompt.length, 1 + random.nextInt(earlier.length)));
        }
        int max = 1 + random.nextInt(CONTEXT - prompt.length);
        int[] text = Arrays.copyOf(prompt, prompt.length + max);
        for (int i = prompt.length; i < text.length; i++) {
            text[i] = ContentExecutor.token(key, i - 1);
        }
        texts.add(text);
        executor.prompt(key, prompt, "");
        engine.submit("r" + key, prompt, EngineHarness.greedy(max), PrefixCaching.SHARED);
    }
}
