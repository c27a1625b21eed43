package dev.tandem.engine.strategy.select;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.engine.ContentExecutor;
import dev.tandem.engine.EngineHarness;
import dev.tandem.engine.cost.CostModel;
import dev.tandem.engine.executor.CheapRows;
import dev.tandem.engine.executor.Readiness;
import dev.tandem.engine.kv.KvWindow;
import dev.tandem.engine.kv.PrefixCacheOptions;
import dev.tandem.engine.request.FinishReason;
import dev.tandem.engine.request.LatencyTargets;
import dev.tandem.engine.request.PrefixCaching;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.sampling.Grammar;
import dev.tandem.engine.sampling.GrammarMatcher;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Decision;
import dev.tandem.engine.schedule.DecisionLog;
import dev.tandem.engine.schedule.Load;
import dev.tandem.engine.schedule.Policy;
import dev.tandem.engine.schedule.PolicyScheduler;
import dev.tandem.engine.schedule.Preemption;
import dev.tandem.engine.schedule.Scene;
import dev.tandem.engine.schedule.Scheduler;
import dev.tandem.engine.schedule.SchedulerState;
import dev.tandem.engine.schedule.Shape;
import dev.tandem.engine.schedule.StepDraft;
import dev.tandem.engine.step.AttentionSite;
import dev.tandem.engine.step.Chunk;
import dev.tandem.engine.step.StepPlan;
import dev.tandem.engine.strategy.Calibrator;
import dev.tandem.engine.strategy.Deviation;
import dev.tandem.engine.strategy.Deviations;
import dev.tandem.engine.strategy.Fidelity;
import dev.tandem.engine.strategy.InFlightLimits;
import dev.tandem.engine.strategy.StepPredictor;
import dev.tandem.engine.strategy.TestProfile;
import dev.tandem.engine.strategy.TierRules;
import dev.tandem.engine.strategy.select.Coverage.Seen;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.EnumMap;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.stream.IntStream;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * Runs every strategy with random requests, pools, budgets, profiles, aborts and readiness. {@link ContentExecutor}
 * checks each plan and each KV read; the harness checks the blocks after each step. {@code -Dtandem.schedules=N} runs N
 * schedules per strategy instead of the default number; a failure names its seed.
 */
class StrategyPropertyTest {
    private static final int SCHEDULES = Integer.getInteger("tandem.schedules", 80);
    /** The improved strategies are those of the papers under other deviations, which are drawn for each schedule. */
    private static final Set<Strategy> STRATEGIES =
            EnumSet.complementOf(EnumSet.of(Strategy.ADAPTIVE_PIPELINING, Strategy.ADAPTIVE));

    private static final Map<Strategy, Coverage> COVERAGE = new EnumMap<>(Strategy.class);

    static Stream<Arguments> cases() {
        return cases(SCHEDULES);
    }

    static Stream<Arguments> someCases() {
        return cases(20);
    }

    static Stream<Arguments> fewCases() {
        return cases(5);
    }

    private static Stream<Arguments> cases(int seeds) {
        return STRATEGIES.stream()
                .flatMap(strategy -> LongStream.range(0, seeds).mapToObj(seed -> Arguments.of(strategy, seed)));
    }

    @ParameterizedTest(name = "{0}, seed {1}")
    @MethodSource("cases")
    void everyRequestEndsWithItsTokens(Strategy strategy, long seed) {
        Run run = new Run(strategy, seed);
        run.drive();
        run.checkAnswers();
        run.checkDraws();
        run.checkPlans();
        COVERAGE.computeIfAbsent(strategy, key -> new Coverage()).add(run.coverage);
    }

    /** A full sample must cover all cases, or it tests less than it claims. */
    @AfterAll
    static void theSampleCoversAllCases() {
        int runs = COVERAGE.values().stream().mapToInt(Coverage::runs).sum();
        if (SCHEDULES >= 80 && runs >= SCHEDULES * STRATEGIES.size()) {
            COVERAGE.forEach((strategy, coverage) -> coverage.check(strategy));
            Coverage.checkGroups(COVERAGE.values());
        }
    }

    @ParameterizedTest(name = "{0}, seed {1}")
    @MethodSource("someCases")
    void droppedDraftsChangeNothing(Strategy strategy, long seed) {
        Run once = new Run(strategy, seed);
        once.drive();
        Run thrice = new Run(strategy, seed, null, 3);
        thrice.drive();
        assertThat(thrice.executor.plans.stream()
                        .map(StrategyPropertyTest::text)
                        .toList())
                .isEqualTo(once.executor.plans.stream()
                        .map(StrategyPropertyTest::text)
                        .toList());
    }

    private static String text(StepPlan plan) {
        StringBuilder text = new StringBuilder().append(plan.step());
        plan.swaps()
                .forEach(swap ->
                        text.append(" r").append(swap.sequence()).append('>').append(swap.to()));
        plan.subBatches().forEach(batch -> {
            text.append(" [");
            batch.chunks()
                    .forEach(chunk -> text.append(String.format(
                            " r%d@%d+%d %s", chunk.sequence(), chunk.start(), chunk.rows(), chunk.site())));
            text.append(']');
        });
        plan.admissions().forEach(admission -> text.append(" admit r").append(admission.sequence()));
        return text + " " + plan.slotsPerLayer() + " slots, pause " + plan.pause() + ", resume " + plan.resume();
    }

    @ParameterizedTest(name = "{0}, seed {1}")
    @MethodSource("fewCases")
    void aRecordedTraceReplays(Strategy strategy, long seed) {
        Run first = new Run(strategy, seed);
        first.drive();
        Run second = new Run(strategy, seed, Readiness.recorded(first.executor.history));
        second.drive();
        assertThat(describe(second.executor.history)).isEqualTo(describe(first.executor.history));
    }

    private static List<String> describe(List<?> results) {
        return results.stream().map(Object::toString).toList();
    }

    /** Drafts each step several times and returns the last draft. */
    private record Redrafting(Policy policy, int times) implements Policy {
        @Override
        public StepDraft draft(SchedulerState state, Decision why) {
            StepDraft first = policy.draft(state, why);
            StepDraft last = first;
            for (int i = 1; i < times; i++) {
                last = policy.draft(state, why);
                assertThat(describe(last)).isEqualTo(describe(first));
            }
            return last;
        }

        private static String describe(StepDraft draft) {
            return draft.shape() + ", " + draft.slots() + " slots: " + Scene.text(draft);
        }

        @Override
        public void completed(StepDraft draft, double achieved) {
            policy.completed(draft, achieved);
        }

        @Override
        public void hostLost(String why) {
            policy.hostLost(why);
        }
    }

    /**
     * Checks the drafts of pipelines: NEO's two slack conditions hold, recomputed from the rows, or waiting for a token
     * raises the rate.
     */
    private record PipelineChecks(Strategy strategy, Policy policy, CostModel cost, boolean hidesAll, Coverage coverage)
            implements Policy {
        @Override
        public StepDraft draft(SchedulerState state, Decision why) {
            coverage.note(
                    Seen.BYPASSED,
                    state.waiting().view().stream()
                            .anyMatch(waiting -> waiting.timings().bypassed() > 0));
            StepDraft draft = policy.draft(state, why);
            if (draft.shape() == Shape.SAME_LAYER) {
                checkThatSameLayerTokensPay(draft);
            }
            boolean hiding = strategy != Strategy.SYMMETRIC && strategy != Strategy.FASTDECODE_PLUS;
            if (draft.shape() == Shape.PIPELINE && hiding) {
                double window1 = cost.linear(rows(draft, 0));
                double window0 = cost.linear(rows(draft, 1)) + gpuAttention(draft);
                boolean alone = rows(draft, 0) == 1 && draft.rows(0).getFirst().site() == AttentionSite.CPU_FROM_HOST;
                boolean hides = cpuAttention(draft, 1) <= window1 && (alone || cpuAttention(draft, 0) <= window0);
                if (!hides && !hidesAll && draft.resumed().isEmpty()) {
                    checkThatTheLastTokenPays(draft);
                    return draft;
                }
                assertThat(cpuAttention(draft, 1)).as("T_ca1 <= T_l0").isLessThanOrEqualTo(window1);
                if (!alone) {
                    assertThat(cpuAttention(draft, 0))
                            .as("T_ca0 <= T_l1 + T_ga0")
                            .isLessThanOrEqualTo(window0);
                }
            }
            return draft;
        }

        @Override
        public void completed(StepDraft draft, double achieved) {
            policy.completed(draft, achieved);
        }

        @Override
        public void hostLost(String why) {
            policy.hostLost(why);
        }

        /** Checks that the step would do fewer requests per second without the CPU token that was added last. */
        private void checkThatTheLastTokenPays(StepDraft draft) {
            StepPredictor predictor = new StepPredictor(cost, true, 0);
            double min = Double.MAX_VALUE;
            for (int batch = 0; batch < 2; batch++) {
                StepDraft.Row last =
                        draft.rows(batch).isEmpty() ? null : draft.rows(batch).getLast();
                if (last != null && last.site() == AttentionSite.CPU_FROM_HOST) {
                    draft.load(batch).add(last, -1);
                    min = Math.min(min, rate(draft, predictor));
                    draft.load(batch).add(last, 1);
                }
            }
            assertThat(rate(draft, predictor))
                    .as("requests per second with the token that the GPU waits for")
                    .isGreaterThan(min);
        }

        /** Checks that the step would do fewer requests per second without its host tokens. */
        private void checkThatSameLayerTokensPay(StepDraft draft) {
            StepPredictor predictor = new StepPredictor(cost, true, 0);
            Load gpu = StepPredictor.withoutCpuRows(draft, 0);
            assertThat(draft.load(0).requests() / predictor.sameLayer(draft.load(0)))
                    .as("requests per second with the same-layer tokens")
                    .isGreaterThan(gpu.requests() / predictor.gpuOnly(gpu));
        }

        private static double rate(StepDraft draft, StepPredictor predictor) {
            return (draft.load(0).requests() + draft.load(1).requests())
                    / predictor.pipeline(draft.load(0), draft.load(1));
        }

        private static int rows(StepDraft draft, int batch) {
            return draft.rows(batch).stream().mapToInt(StepDraft.Row::rows).sum();
        }

        private double cpuAttention(StepDraft draft, int batch) {
            List<Sequence> sequences = new ArrayList<>(draft.rows(batch).stream()
                    .filter(row -> row.site() == AttentionSite.CPU_FROM_HOST)
                    .map(StepDraft.Row::sequence)
                    .toList());
            if (batch == 1) {
                sequences.addAll(draft.resumed());
            }
            return cost.cpuAttention(
                    sequences.size(),
                    sequences.stream().mapToLong(draft.state()::context).sum());
        }

        private double gpuAttention(StepDraft draft) {
            long tokens = 0;
            long pairs = 0;
            for (StepDraft.Row row : draft.rows(0)) {
                boolean decode = row.decodes();
                tokens += decode && row.site() == AttentionSite.GPU_FROM_GPU
                        ? draft.state().context(row.sequence())
                        : 0;
                for (int i = 0; !decode && i < row.rows(); i++) {
                    pairs += draft.state().kv().span().tokens(row.start() + i + 1);
                }
            }
            return cost.gpuAttention(tokens) + cost.prefillAttention(pairs);
        }
    }

    /** One schedule, determined by its seed. */
    private static final class Run {
        final SplittableRandom random;
        final ContentExecutor executor;
        final EngineHarness engine;
        final Map<String, Integer> wanted = new HashMap<>();
        final Map<String, Integer> prompts = new HashMap<>();
        final Set<String> aborted = new HashSet<>();
        final Strategy strategy;
        final Coverage coverage = new Coverage();
        final DecisionLog log = new DecisionLog(4);
        Optional<StrategySelector> guard = Optional.empty();
        Policy chosen;
        final SplittableRandom prefixes;
        /** Whether half of the requests have grammars: in a third of the runs. */
        final boolean forces;

        final boolean sharesPrefixes;
        /** Prompt and output of each request. */
        final List<int[]> texts = new ArrayList<>();

        Run(Strategy strategy, long seed) {
            this(strategy, seed, null, 1);
        }

        Run(Strategy strategy, long seed, Readiness recorded) {
            this(strategy, seed, recorded, 1);
        }

        Run(Strategy strategy, long seed, Readiness recorded, int drafts) {
            this.strategy = strategy;
            random = new SplittableRandom(seed);
            forces = new SplittableRandom(seed + 88).nextInt(3) == 0;
            int context = 16 + random.nextInt(40);
            int gpu = (context + 3) / 4 + random.nextInt(random.nextBoolean() ? 3 : 20);
            int host = strategy.allHost() ? (context + 3) / 4 + random.nextInt(40) : 1 + random.nextInt(80);
            int hostBlock = 4 * (1 + random.nextInt(4));
            int sequences = 2 + random.nextInt(16);
            Budget budget = new Budget(sequences + random.nextInt(80), sequences, 1 + random.nextInt(40));
            Readiness readiness = switch (random.nextInt(3)) {
                case 0 -> Readiness.allEarly();
                case 1 -> Readiness.allLate();
                default -> Readiness.random(seed + 1);
            };
            // a third of the models have a sliding window, and pools that need not hold a whole context
            SplittableRandom windows = new SplittableRandom(seed + 71);
            int window = windows.nextInt(3) == 0 ? 1 + windows.nextInt(30) : 0;
            KvWindow held = window == 0 ? KvWindow.NONE : new KvWindow(window, hostBlock, budget.maxBatchTokens());
            // in half of these, some layers have no window
            boolean mixed = window > 0 && windows.nextBoolean();
            int max = mixed ? context : Math.min(context, held.maxHeld());
            gpu -= (context + 3) / 4 - (max + 3) / 4;
            host -= strategy.allHost() ? (context + 3) / 4 - (max + 3) / 4 : 0;
            int layers = 2 + random.nextInt(3);
            executor = new ContentExecutor(
                    IntStream.range(0, layers)
                            .mapToObj(layer -> mixed && layer == 1 ? 0 : window)
                            .toList(),
                    gpu,
                    hostBlock,
                    host,
                    budget.maxBatchTokens(),
                    context,
                    recorded == null ? readiness : recorded);
            // half of the runs share prefixes, some with hashes that collide often
            prefixes = new SplittableRandom(seed + 56);
            PrefixCacheOptions prefixCache =
                    new PrefixCacheOptions(prefixes.nextBoolean(), seed, prefixes.nextInt(3) == 0 ? 15 : -1);
            sharesPrefixes = prefixCache.enabled();
            engine = new EngineHarness(executor, scheduler(budget, seed, drafts), budget, prefixCache);
            executor.usesSamplers = forces;
            executor.allowsAsyncScheduling = new SplittableRandom(seed + 5).nextInt(3) > 0;
            if (random.nextInt(4) == 0) {
                SplittableRandom losses = new SplittableRandom(seed + 9);
                executor.losing = key -> losses.nextInt(40) == 0;
                engine.failuresExpected = true;
            }
            // steps that use the host are faster than predicted, as predicted, or slower
            double slower = List.of(0.3, 1.0, 4.0).get(new SplittableRandom(seed + 17).nextInt(3));
            executor.computing = plan ->
                    engine.clock.advance((long) (1e5 * (1 + plan.rows() / 50.0) * (usesHost(plan) ? slower : 1)));
        }

        private static boolean usesHost(StepPlan plan) {
            return plan.slotsPerLayer() > 0
                    || chunks(plan).anyMatch(chunk -> chunk.site() != AttentionSite.GPU_FROM_GPU);
        }

        private static Stream<Chunk> chunks(StepPlan plan) {
            return plan.subBatches().stream().flatMap(batch -> batch.chunks().stream());
        }

        private Scheduler scheduler(Budget budget, long seed, int drafts) {
            // the CPU's speed, from useless to better than the GPU
            CostModel cost = TestProfile.withCpu(Math.pow(10, random.nextInt(4) - 1));
            TierRules rules = random.nextBoolean()
                    ? TierRules.neutral()
                    : new TierRules(
                            new SplittableRandom(seed + 21).nextBoolean()
                                    ? LatencyTargets.NONE
                                    : new LatencyTargets(3_000_000, 2_000_000),
                            3,
                            2,
                            4);
            InFlightLimits inFlightTokens = random.nextBoolean()
                    ? InFlightLimits.UNLIMITED
                    : new InFlightLimits(1 + random.nextInt(4), 1 + random.nextInt(8), random.nextBoolean());
            boolean hidesAll = new SplittableRandom(seed + 13).nextInt(3) > 0;
            Deviations deviations = deviations(seed).with(Deviation.WAITS_FOR_HOST_TOKENS, !hidesAll);
            var options = Strategy.Options.builder(budget)
                    .preemption(Preemption.values()[random.nextInt(2)])
                    .rules(rules)
                    .deviations(deviations)
                    .queueBypasses(random.nextInt(4))
                    .inFlight(inFlightTokens)
                    .piggybacking(CheapRows.upTo(random.nextInt(40)))
                    .build();
            StepPredictor predictor = new StepPredictor(cost, true, 8);
            SelectorLimits limits = new SelectorLimits(0.01, 2, 4, 2, 4, 8);
            guard = random.nextInt(3) == 0
                    ? Optional.of(strategy.guarded(options, predictor, limits, () -> Double.NaN))
                    : Optional.empty();
            chosen = guard.isPresent() ? guard.get() : strategy.policy(options, cost, limits);
            Policy policy = new PipelineChecks(strategy, chosen, cost, hidesAll, coverage);
            Policy drafted = drafts > 1 ? new Redrafting(policy, drafts) : policy;
            return new PolicyScheduler(drafted, predictor::of, new Calibrator(cost, 8), log);
        }

        /** A seeded value for every deviation. */
        private static Deviations deviations(long seed) {
            SplittableRandom values = new SplittableRandom(seed + 34);
            Deviations deviations = Deviations.of(Fidelity.values()[values.nextInt(3)]);
            for (Deviation deviation : Deviation.values()) {
                Fidelity other = values.nextInt(4) > 0 ? Fidelity.TANDEM : Fidelity.values()[values.nextInt(2)];
                deviations = deviations.with(deviation, deviation.value(other));
            }
            List<String> partialProgress = Deviation.PARTIAL_PROGRESS.words();
            return deviations
                    .with(Deviation.MIN_CPU_RATIO, String.valueOf(values.nextInt(3)))
                    .with(Deviation.PARTIAL_PROGRESS, partialProgress.get(values.nextInt(partialProgress.size())));
        }

        void drive() {
            int requests = 3 + random.nextInt(40);
            List<String> live = new ArrayList<>();
            for (int i = 0; i < requests || !engine.loop.isIdle(); ) {
                for (int burst = random.nextInt(4); i < requests && burst > 0; burst--) {
                    submit("r" + i++, live);
                }
                if (!live.isEmpty() && random.nextInt(12) == 0) {
                    String victim = live.get(random.nextInt(live.size()));
                    if (engine.answers.get(victim).reason == null) {
                        aborted.add(victim);
                        engine.cancel(victim);
                    }
                }
                engine.step();
                coverage.step(executor, log, engine.loop.stats(), guard, chosen);
                assertThat(executor.plans.size())
                        .as("the engine does not come to an end")
                        .isLessThan(20_000);
            }
            coverage.end(engine.answers.values());
        }

        private void submit(String id, List<String> live) {
            int context = executor.limits().contextTokens();
            int prompt = 1 + random.nextInt(context - 1);
            int output = 1 + random.nextInt(context - prompt);
            int max = random.nextBoolean() ? output : output + random.nextInt(context - prompt - output + 1);
            prompts.put(id, prompt);
            wanted.put(id, output);
            live.add(id);
            // some requests end at a stop token, which no plan can foresee
            long key = Long.parseLong(id.substring(1));
            int end = ContentExecutor.token(key, prompt - 1 + output - 1);
            boolean constrained = forces && key % 2 == 0;
            SamplingParams sampling = SamplingParams.builder()
                    .temperature(forces ? 1 : 0)
                    .seed(key)
                    // draws that depend on the output without a grammar
                    .presencePenalty(forces && key % 4 == 1 ? 1 : 0)
                    .minTokens(forces && key % 4 == 3 ? output / 2 : 0)
                    .maxTokens(max)
                    .ignoreEos(!constrained)
                    .stopTokenIds(Set.of(end))
                    .grammar(constrained ? Optional.of(forcing(key, prompt)) : Optional.empty())
                    .build();
            int[] tokens = random.ints(prompt, 0, 1000).toArray();
            resend(tokens);
            int[] text = Arrays.copyOf(tokens, prompt + output);
            for (int i = prompt; i < text.length; i++) {
                text[i] = ContentExecutor.token(key, i - 1);
            }
            texts.add(text);
            String salt = prefixes.nextInt(4) == 0 ? "salt" : "";
            executor.prompt(key, tokens, salt);
            engine.submit(id, tokens, sampling, new PrefixCaching(prefixes.nextInt(8) > 0, salt));
            if (prefixes.nextInt(40) == 0) {
                engine.resetPrefixCache();
            }
        }

        /**
         * A grammar that forces some of the next tokens, after a third of all tokens. Half of its bitmasks are late.
         */
        private Grammar forcing(long key, int prompt) {
            return () -> new GrammarMatcher() {
                private int length = prompt;
                /** How often the engine has to ask for the bitmask. */
                private int late = late();

                private int late() {
                    SplittableRandom choice = new SplittableRandom(key * 1000 - length);
                    return choice.nextBoolean() ? choice.nextInt(12) : 0;
                }

                @Override
                public boolean awaitReady(long maxNanos) {
                    late = maxNanos == Long.MAX_VALUE ? 0 : Math.max(0, late - 1);
                    coverage.note(Seen.LATE_BITMASK, late > 0);
                    return late == 0;
                }

                @Override
                public boolean allows(int token) {
                    return true;
                }

                @Override
                public void fillBitmask(int[] bitmask) {
                    Arrays.fill(bitmask, 0);
                    int next = ContentExecutor.token(key, length - 1);
                    bitmask[next / 32] = 1 << next;
                }

                @Override
                public void accept(int token) {
                    assertThat(token).isEqualTo(ContentExecutor.token(key, length++ - 1));
                    late = late();
                }

                @Override
                public int[] acceptForced() {
                    SplittableRandom choice = new SplittableRandom(key * 1000 + length);
                    int[] forced = new int[choice.nextInt(3) == 0 ? 1 + choice.nextInt(8) : 0];
                    for (int i = 0; i < forced.length; i++) {
                        forced[i] = ContentExecutor.token(key, length++ - 1);
                    }
                    late = late();
                    coverage.note(Seen.FORCED, forced.length > 0);
                    return forced;
                }

                @Override
                public void close() {}
            };
        }

        /** Lets the prompt begin as an earlier request's prompt and output do, as the next turn of a chat does. */
        private void resend(int[] prompt) {
            if (!texts.isEmpty() && prefixes.nextInt(3) > 0) {
                int[] earlier = texts.get(prefixes.nextInt(texts.size()));
                int max = Math.min(earlier.length, prompt.length);
                System.arraycopy(earlier, 0, prompt, 0, prefixes.nextInt(3) == 0 ? prefixes.nextInt(max) : max);
            }
        }

        void checkAnswers() {
            wanted.forEach((id, count) -> {
                long key = Long.parseLong(id.substring(1));
                List<Integer> expected = new ArrayList<>();
                for (int i = 0; i < count; i++) {
                    expected.add(ContentExecutor.token(key, prompts.get(id) - 1 + i));
                }
                var answer = engine.answers.get(id);
                if (answer.reason == FinishReason.ABORT) {
                    assertThat(aborted).contains(id);
                    assertThat(answer.tokens).isEqualTo(expected.subList(0, answer.tokens.size()));
                } else if (answer.failure != null) {
                    assertThat(answer.failure).isEqualTo("the worker is gone");
                    assertThat(answer.tokens).isEqualTo(expected.subList(0, answer.tokens.size()));
                } else {
                    assertThat(answer.tokens).as(id).isEqualTo(expected);
                }
            });
            assertThat(engine.loop.stats().gpu().used()
                            + engine.loop.stats().host().used())
                    .isZero();
            assertThat(executor.plans.stream().map(StepPlan::step)).doesNotHaveDuplicates();
        }

        /** Checks that each token was drawn by the random number that it has when tokens are drawn one by one. */
        void checkDraws() {
            executor.draws.forEach((key, byPosition) -> {
                int prompt = prompts.get("r" + key);
                byPosition.forEach((position, uniform) -> {
                    SplittableRandom numbers = new SplittableRandom(key);
                    IntStream.range(prompt, position).forEach(token -> numbers.nextInt());
                    assertThat(uniform)
                            .as("r%d, token %d", key, position)
                            .isEqualTo((numbers.nextInt() >>> 8) * 0x1p-24);
                });
            });
        }

        /** Checks that plans are of the strategy's kinds; under the guard also of gpu-only and of the drain. */
        void checkPlans() {
            boolean pipelines = switch (strategy) {
                case GPU_ONLY, SWIFTLLM, SIMPLE_OFFLOAD, ASYNC_OVERLAP -> false;
                case SYMMETRIC, FASTDECODE_PLUS, ASYMMETRIC, NEO, APEX, ADAPTIVE_PIPELINING, ADAPTIVE -> true;
            };
            boolean overlaps = strategy == Strategy.ASYNC_OVERLAP || strategy == Strategy.APEX;
            boolean cpuRows = strategy.offloads() && strategy != Strategy.ASYNC_OVERLAP;
            for (StepPlan plan : executor.plans) {
                assertThat(plan.subBatches().size()).as("%s", plan).isLessThanOrEqualTo(pipelines ? 2 : 1);
                assertThat(plan.admissions().isEmpty() || overlaps || guard.isPresent())
                        .as("admissions of %s", plan)
                        .isTrue();
                assertThat(cpuRows || chunks(plan).noneMatch(chunk -> chunk.site() == AttentionSite.CPU_FROM_HOST))
                        .as("attention sites of %s", plan)
                        .isTrue();
                // a hit may leave one token of a prompt, which looks like a decode
                assertThat(!strategy.allHost()
                                || guard.isPresent()
                                || sharesPrefixes
                                || chunks(plan)
                                        .noneMatch(
                                                chunk -> chunk.decodes() && chunk.site() == AttentionSite.GPU_FROM_GPU))
                        .as("GPU decodes of %s", plan)
                        .isTrue();
            }
        }
    }
}
