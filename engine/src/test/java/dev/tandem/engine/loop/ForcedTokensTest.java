package dev.tandem.engine.loop;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.engine.clock.VirtualClock;
import dev.tandem.engine.observe.EngineListener;
import dev.tandem.engine.queue.AdmissionQueue;
import dev.tandem.engine.request.FinishReason;
import dev.tandem.engine.request.Request;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.engine.request.TextDecoder;
import dev.tandem.engine.request.TokenEvent;
import dev.tandem.engine.sampling.Grammar;
import dev.tandem.engine.sampling.GrammarMatcher;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.PolicyScheduler;
import dev.tandem.engine.schedule.Preemption;
import dev.tandem.engine.step.Chunk;
import dev.tandem.engine.strategy.GpuOnly;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import org.junit.jupiter.api.Test;

/** Tokens that a grammar forces are appended without the model, and the next step computes them as one chunk. */
class ForcedTokensTest {
    private static final int[] PROMPT = {1, 2, 3};
    private static final int SAMPLED = FakeExecutor.TOKEN;

    private final FakeExecutor executor = new FakeExecutor();
    private final VirtualClock clock = new VirtualClock();
    private final AdmissionQueue queue = new AdmissionQueue(8, clock);
    private final Budget budget = new Budget(64, 8, 64);
    private final EngineLoop loop = new EngineLoop(
            new EngineConfig(budget, Set.of(21), 64, 8, 1),
            queue,
            PolicyScheduler.of(new GpuOnly(budget, Preemption.SWAP)),
            executor,
            clock,
            EngineListener.NONE);
    private final List<Integer> tokens = new ArrayList<>();
    private final StringBuilder text = new StringBuilder();
    private TokenEvent end;

    private static Grammar forcing(int... forced) {
        return () -> new GrammarMatcher() {
            @Override
            public boolean allows(int token) {
                return true;
            }

            @Override
            public void fillBitmask(int[] bitmask) {
                Arrays.fill(bitmask, -1);
            }

            @Override
            public void accept(int token) {}

            @Override
            public int[] acceptForced() {
                if (forced.length == 0) {
                    throw new IllegalStateException("no such rule");
                }
                return forced;
            }

            @Override
            public void close() {}
        };
    }

    private SamplingParams.Builder sampling(int maxTokens) {
        return SamplingParams.builder().temperature(0).maxTokens(maxTokens).grammar(Optional.of(forcing(20, 22)));
    }

    private void run(SamplingParams sampling) {
        queue.offer(List.of(new Request(
                "r", PROMPT, sampling, 0, TextDecoder.of(token -> "<" + token + ">", () -> ""), event -> {
                    switch (event) {
                        case TokenEvent.Token token -> {
                            tokens.add(token.id());
                            text.append(token.text());
                        }
                        case TokenEvent.Finished finished -> {
                            text.append(finished.text());
                            end = finished;
                        }
                        case TokenEvent.Failed failed -> end = failed;
                    }
                })));
        for (int steps = 0; !loop.isIdle(); steps++) {
            assertThat(steps).isLessThan(1000);
            loop.step();
            loop.checkIntegrity();
        }
    }

    private List<Integer> rowsOfSteps() {
        return executor.submitted.stream()
                .map(plan -> plan.subBatches().getFirst().chunks().stream()
                        .mapToInt(Chunk::rows)
                        .sum())
                .toList();
    }

    private void assertEnd(FinishReason reason, int completionTokens) {
        assertThat(end).isInstanceOfSatisfying(TokenEvent.Finished.class, finished -> {
            assertThat(finished.reason()).isEqualTo(reason);
            assertThat(finished.usage().completionTokens()).isEqualTo(completionTokens);
        });
    }

    @Test
    void forcedTokensAreComputedAsOneChunk() {
        run(sampling(7).build());
        assertThat(tokens).containsExactly(SAMPLED, 20, 22, SAMPLED, 20, 22, SAMPLED);
        assertThat(rowsOfSteps()).containsExactly(3, 3, 3);
        assertEnd(FinishReason.LENGTH, 7);
    }

    /** The step that runs computes the token before them, and samples none. */
    @Test
    void behindAStepThatRunsTheyAreComputedByTheOneAfterIt() {
        executor.allowsAsyncScheduling = true;
        run(sampling(7).build());
        assertThat(tokens).containsExactly(SAMPLED, 20, 22, SAMPLED, 20, 22, SAMPLED);
        assertThat(rowsOfSteps()).containsExactly(3, 1, 2, 1, 2);
        assertEnd(FinishReason.LENGTH, 7);
    }

    @Test
    void maxTokensMayCutThem() {
        run(sampling(5).build());
        assertThat(tokens).containsExactly(SAMPLED, 20, 22, SAMPLED, 20);
        assertEnd(FinishReason.LENGTH, 5);
    }

    @Test
    void aStopStringMayEndWithinThem() {
        run(sampling(50).stop(List.of("20>")).build());
        assertThat(tokens).containsExactly(SAMPLED, 20);
        assertThat(text).hasToString("<7><");
        assertEnd(FinishReason.STOP, 2);
    }

    @Test
    void anEndTokenEndsThem() {
        run(sampling(50).grammar(Optional.of(forcing(20, 21, 22))).build());
        assertThat(tokens).containsExactly(SAMPLED, 20, 21);
        assertEnd(FinishReason.STOP, 3);
    }

    @Test
    void logprobsNeedTheModelForEachToken() {
        run(sampling(3).logprobs(0).build());
        assertThat(tokens).containsExactly(SAMPLED, SAMPLED, SAMPLED);
        assertThat(rowsOfSteps()).containsExactly(3, 1, 1);
    }

    @Test
    void aMatcherThatThrowsEndsItsRequest() {
        run(sampling(50).grammar(Optional.of(forcing())).build());
        assertThat(end)
                .isInstanceOfSatisfying(
                        TokenEvent.Failed.class,
                        failed -> assertThat(failed.message()).contains("grammar failed", "no such rule"));
    }
}
