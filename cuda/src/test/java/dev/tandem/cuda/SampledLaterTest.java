package dev.tandem.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.engine.EngineHarness;
import dev.tandem.engine.executor.Executor;
import dev.tandem.engine.executor.ExecutorLimits;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.engine.sampling.Grammar;
import dev.tandem.engine.sampling.GrammarMatcher;
import dev.tandem.engine.sampling.RandomGrammar;
import dev.tandem.engine.sampling.SamplingException;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.PolicyScheduler;
import dev.tandem.engine.schedule.Preemption;
import dev.tandem.engine.step.StepPlan;
import dev.tandem.engine.step.StepResult;
import dev.tandem.engine.strategy.TestProfile;
import dev.tandem.engine.strategy.select.Strategy;
import dev.tandem.model.config.DataType;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Steps whose layers run before the tokens are known that their grammars and penalties need. */
@Tag("gpu")
class SampledLaterTest {
    private static final int REQUESTS = 24;

    /** Records plans, and hides async scheduling from the engine if it is told so. */
    private static final class Recorder implements Executor {
        final CudaExecutor executor;
        final boolean async;
        final List<String> plans = new ArrayList<>();
        /** Steps that were sampled later. */
        int later;
        /** Those that another step followed before their result was known. */
        int followed;
        /** Rows that were not sampled then. */
        int skipped;

        private int outstanding;
        private boolean lastLater;

        Recorder(CudaExecutor executor, boolean async) {
            this.executor = executor;
            this.async = async;
        }

        @Override
        public ExecutorLimits limits() {
            return executor.limits();
        }

        @Override
        public void submit(StepPlan plan) {
            submitted(plan, false);
            executor.submit(plan);
        }

        @Override
        public void submitLayers(StepPlan plan) {
            boolean follows = outstanding > 0;
            submitted(plan, follows);
            later += follows ? 1 : 0;
            executor.submitLayers(plan);
        }

        @Override
        public boolean drawsByBitmask() {
            return executor.drawsByBitmask();
        }

        private void submitted(StepPlan plan, boolean isLater) {
            followed += lastLater && outstanding > 0 ? 1 : 0;
            lastLater = isLater;
            outstanding++;
            StringBuilder text = new StringBuilder();
            plan.subBatches().stream()
                    .flatMap(batch -> batch.chunks().stream())
                    .forEach(chunk -> text.append(chunk.sequence())
                            .append('@')
                            .append(chunk.start())
                            .append('+')
                            .append(chunk.rows())
                            .append(' '));
            plans.add(text.toString());
        }

        @Override
        public void sample(Set<Long> without) {
            skipped += without.size();
            executor.sample(without);
        }

        @Override
        public boolean allowsAsyncScheduling() {
            return async && executor.allowsAsyncScheduling();
        }

        @Override
        public StepResult poll() {
            outstanding--;
            return executor.poll();
        }

        @Override
        public void close() {
            executor.close();
        }
    }

    /** Of five tokens, the last two are forced. After a third of all tokens the bitmask is late. */
    private static final class Forcing implements Grammar {
        /** Questions for a late bitmask until it is ready. */
        private static final int MAX_ASKED = 8;

        private final int vocabulary;
        /** Questions for bitmasks that were not ready. */
        int late;

        Forcing(int vocabulary) {
            this.vocabulary = vocabulary;
        }

        private boolean allows(int length, int token) {
            return length % 5 < 3 ? token % 2 == length % 2 : token == forced(length);
        }

        private int forced(int length) {
            return (length * 7 + 11) % vocabulary;
        }

        boolean matches(List<Integer> output) {
            for (int i = 0; i < output.size(); i++) {
                if (!allows(i, output.get(i))) {
                    return false;
                }
            }
            return true;
        }

        @Override
        public GrammarMatcher matcher() {
            return new GrammarMatcher() {
                private int length;
                /** How often the engine has asked for the bitmask. */
                private int asked;

                private boolean closed;

                @Override
                public boolean awaitReady(long maxNanos) {
                    asked = maxNanos == Long.MAX_VALUE ? MAX_ASKED : asked + 1;
                    boolean ready = length % 3 != 1 || asked >= MAX_ASKED;
                    late += ready ? 0 : 1;
                    return ready;
                }

                @Override
                public boolean allows(int token) {
                    return closed || Forcing.this.allows(length, token);
                }

                @Override
                public void fillBitmask(int[] bitmask) {
                    Arrays.fill(bitmask, 0);
                    for (int token = 0; token < vocabulary; token++) {
                        bitmask[token / 32] |= (allows(token) ? 1 : 0) << token;
                    }
                }

                @Override
                public void accept(int token) {
                    if (!allows(token)) {
                        throw new SamplingException("token " + token + " is not allowed at " + length);
                    }
                    length++;
                    asked = 0;
                }

                @Override
                public int[] acceptForced() {
                    int[] all = new int[length % 5 == 3 ? 2 : 0];
                    for (int i = 0; i < all.length; i++) {
                        all[i] = forced(length++);
                        asked = 0;
                    }
                    return all;
                }

                @Override
                public void close() {
                    closed = true;
                }
            };
        }
    }

    private static SamplingParams.Builder sampling(int request) {
        return SamplingParams.builder()
                .temperature(request % 2 * 0.9)
                .seed(request)
                .maxTokens(10 + request);
    }

    /**
     * What a run of all requests gave.
     *
     * @param plans rows of each step; where these are the same, the same kernels compute them
     */
    private record Run(List<String> plans, List<List<Integer>> tokens) {}

    private static Run run(CudaExecutor executor, boolean async, boolean withGrammars) {
        Recorder recorder = new Recorder(executor, async);
        int vocabulary = executor.limits().vocabulary();
        Budget budget = new Budget(256, 64, 64);
        List<List<Integer>> tokens = new ArrayList<>();
        try (EngineHarness engine = EngineHarness.gpuOnly(recorder, budget, Preemption.SWAP)) {
            SplittableRandom random = new SplittableRandom(5);
            List<Optional<RandomGrammar>> grammars = new ArrayList<>();
            for (int i = 0; i < REQUESTS; i++) {
                SamplingParams.Builder sampling = sampling(i);
                grammars.add(
                        withGrammars && i % 4 == 1 ? Optional.of(new RandomGrammar(i, vocabulary)) : Optional.empty());
                grammars.getLast().ifPresent(grammar -> sampling.grammar(Optional.of(grammar)));
                switch (i % 4) {
                    case 2 -> sampling.repetitionPenalty(1.3).presencePenalty(0.4);
                    case 3 ->
                        sampling.minTokens(5)
                                .stopTokenIds(Set.of(vocabulary - 1))
                                // an end that is known late would add a row to a step that follows ahead
                                .logitBias(Map.of(vocabulary - 1, -100f));
                    default -> {}
                }
                if (i % 8 == 4) {
                    sampling.logprobs(3);
                }
                engine.submit(
                        "r" + i, random.ints(1 + random.nextInt(40), 3, 200).toArray(), sampling.build());
            }
            engine.run();
            for (int i = 0; i < REQUESTS; i++) {
                List<Integer> output = engine.tokens("r" + i);
                grammars.get(i)
                        .ifPresent(grammar -> assertThat(grammar.matches(output))
                                .as("%s", output)
                                .isTrue());
                tokens.add(output);
            }
        }
        if (async) {
            assertThat(recorder.later).as("steps sampled later").isGreaterThan(20);
            assertThat(recorder.followed)
                    .as("of them, steps that were followed before their result")
                    .isGreaterThan(20);
        } else {
            assertThat(recorder.later).isZero();
        }
        return new Run(recorder.plans, tokens);
    }

    @ParameterizedTest(name = "grammars {0}")
    @ValueSource(booleans = {true, false})
    void tokensAreTheSameWithoutAsyncScheduling(boolean withGrammars) {
        Run async = run(CudaModelTest.executor("llama31", DataType.BFLOAT16, 200, true), true, withGrammars);
        Run sync = run(CudaModelTest.executor("llama31", DataType.BFLOAT16, 200, true), false, withGrammars);
        assertThat(async.plans()).isEqualTo(sync.plans());
        for (int i = 0; i < REQUESTS; i++) {
            assertThat(async.tokens().get(i))
                    .as("r%d", i)
                    .isEqualTo(sync.tokens().get(i));
        }
    }

    /** Forced tokens, unforeseen ends, swaps and host tokens beside rows that are sampled later. */
    @ParameterizedTest
    @EnumSource(
            value = Strategy.class,
            names = {"GPU_ONLY", "NEO", "APEX", "ASYNC_OVERLAP"})
    void outputsFollowTheirGrammars(Strategy strategy) {
        boolean offloads = strategy != Strategy.GPU_ONLY;
        Budget budget = new Budget(200, 64, 200);
        CudaExecutor executor =
                CudaModelTest.executor("llama31", DataType.FLOAT16, offloads ? 40 : 60, true, offloads ? 3 : 0, 10_000);
        Recorder recorder = new Recorder(executor, true);
        int vocabulary = executor.limits().vocabulary();
        Forcing forcing = new Forcing(vocabulary);
        var policy = strategy.policy(Strategy.Options.of(budget), TestProfile.withCpu(100));
        try (EngineHarness engine = new EngineHarness(recorder, PolicyScheduler.of(policy), budget)) {
            SplittableRandom random = new SplittableRandom(6);
            for (int i = 0; i < 3 * REQUESTS; i++) {
                SamplingParams.Builder sampling = sampling(i).maxTokens(20 + i % 30);
                if (i % 2 == 0) {
                    sampling.grammar(Optional.of(forcing));
                }
                if (i % 3 == 0) {
                    // may end a request that the next step computes already
                    sampling.stopTokenIds(Set.of(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
                }
                engine.submit(
                        "r" + i, random.ints(1 + random.nextInt(40), 3, 200).toArray(), sampling.build());
                engine.step();
                if (i % 10 == 9) {
                    engine.cancel("r" + random.nextInt(i));
                }
            }
            engine.run();
            for (int i = 0; i < 3 * REQUESTS; i += 2) {
                List<Integer> output = engine.tokens("r" + i);
                assertThat(forcing.matches(output)).as("r%d: %s", i, output).isTrue();
            }
        }
        assertThat(recorder.later).as("steps sampled later").isPositive();
        assertThat(recorder.skipped).as("rows not sampled then").isPositive();
        assertThat(forcing.late).as("late bitmasks").isPositive();
    }

    /** A matcher that fails ends its request alone, though a step runs that computes its token. */
    @Test
    void aGrammarThatFailsEndsItsRequestAlone() {
        CudaExecutor executor = CudaModelTest.executor("llama31", DataType.BFLOAT16, 60, true);
        Recorder recorder = new Recorder(executor, true);
        try (EngineHarness engine = EngineHarness.gpuOnly(recorder, new Budget(64, 8, 64), Preemption.SWAP)) {
            engine.failuresExpected = true;
            engine.submit("a", new int[] {5, 6, 7}, EngineHarness.greedy(30));
            engine.submit(
                    "failing",
                    new int[] {8, 9},
                    sampling(1).maxTokens(30).grammar(Optional.of(failing())).build());
            engine.run();
            assertThat(engine.tokens("a")).hasSize(30);
            assertThat(engine.answers.get("failing").failure).contains("the matcher has failed");
            assertThat(engine.tokens("failing")).hasSize(9);
        }
        assertThat(recorder.later).isPositive();
    }

    /** Allows every token, and fails at the tenth. */
    private static Grammar failing() {
        return () -> new GrammarMatcher() {
            private int length;

            @Override
            public boolean allows(int token) {
                return true;
            }

            @Override
            public void fillBitmask(int[] bitmask) {
                Arrays.fill(bitmask, -1);
            }

            @Override
            public void accept(int token) {
                if (++length == 10) {
                    throw new SamplingException("the matcher has failed");
                }
            }

            @Override
            public void close() {}
        };
    }
}
