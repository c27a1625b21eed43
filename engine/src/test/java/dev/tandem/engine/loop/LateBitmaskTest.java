package dev.tandem.engine.loop;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.engine.EngineHarness;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.engine.sampling.Grammar;
import dev.tandem.engine.sampling.GrammarMatcher;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.DecisionLog;
import dev.tandem.engine.schedule.PolicyScheduler;
import dev.tandem.engine.schedule.Preemption;
import dev.tandem.engine.strategy.GpuOnly;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Sequence 0 has no grammar; sequence 1 has one whose bitmask is ready when the test says so. */
class LateBitmaskTest {
    private final FakeExecutor executor = new FakeExecutor();
    private final EngineHarness engine = EngineHarness.gpuOnly(executor, new Budget(64, 8, 64), Preemption.SWAP);
    private boolean ready;
    /** Max waits that were asked for, but for questions that do not wait. */
    private final List<Long> waits = new ArrayList<>();

    private Grammar grammar() {
        return () -> new GrammarMatcher() {
            @Override
            public boolean allows(int token) {
                return true;
            }

            @Override
            public boolean awaitReady(long maxNanos) {
                if (maxNanos > 0) {
                    waits.add(maxNanos);
                }
                return ready || maxNanos == Long.MAX_VALUE;
            }

            @Override
            public void fillBitmask(int[] bitmask) {
                Arrays.fill(bitmask, -1);
            }

            @Override
            public void accept(int token) {}

            @Override
            public void close() {}
        };
    }

    private SamplingParams sampling(boolean constrained) {
        return SamplingParams.builder()
                .temperature(1)
                .maxTokens(30)
                .ignoreEos(!constrained)
                .grammar(constrained ? Optional.of(grammar()) : Optional.empty())
                .build();
    }

    private void submitBoth() {
        engine.submit("plain", new int[] {1, 2, 3}, sampling(false));
        engine.submit("constrained", new int[] {4, 5, 6}, sampling(true));
    }

    /** The sequences of the steps that were submitted since the last call. */
    private List<List<Long>> steps(int turns) {
        int before = executor.submitted.size();
        for (int i = 0; i < turns; i++) {
            engine.step();
        }
        return executor.submitted.subList(before, executor.submitted.size()).stream()
                .map(plan -> plan.subBatches().stream()
                        .flatMap(batch -> batch.chunks().stream())
                        .map(chunk -> chunk.sequence())
                        .toList())
                .toList();
    }

    @ParameterizedTest(name = "async scheduling {0}")
    @ValueSource(booleans = {true, false})
    void othersGoOnWhileABitmaskIsLate(boolean async) {
        executor.allowsAsyncScheduling = async;
        submitBoth();
        assertThat(steps(1)).containsExactly(List.of(0L, 1L));
        assertThat(steps(8)).hasSizeGreaterThan(5).containsOnly(List.of(0L));
        assertThat(engine.tokens("plain")).hasSizeGreaterThan(4);
        assertThat(engine.tokens("constrained")).isEmpty();
        ready = true;
        engine.run();
        assertThat(engine.tokens("constrained")).hasSize(30).containsOnly(FakeExecutor.TOKEN);
        assertThat(engine.tokens("plain")).hasSize(30);
    }

    @ParameterizedTest(name = "async scheduling {0}")
    @ValueSource(booleans = {true, false})
    void aSequenceWhoseBitmasksAreInTimeAgainIsInEveryStep(boolean async) {
        executor.allowsAsyncScheduling = async;
        submitBoth();
        steps(4);
        ready = true;
        steps(6);
        assertThat(steps(4)).hasSize(4).allMatch(step -> step.contains(1L));
        ready = false;
        steps(2);
        assertThat(steps(4)).containsOnly(List.of(0L));
    }

    @ParameterizedTest(name = "async scheduling {0}")
    @ValueSource(booleans = {true, false})
    void aSequenceThatIsAloneIsWaitedFor(boolean async) {
        executor.allowsAsyncScheduling = async;
        engine.submit("constrained", new int[] {4, 5, 6}, sampling(true));
        engine.run();
        assertThat(engine.tokens("constrained")).hasSize(30);
        assertThat(waits).contains(Long.MAX_VALUE);
        assertThat(executor.submitted).hasSizeLessThan(33);
    }

    /** The harness's steps take 1 ms each. */
    @Test
    void aBitmaskIsWaitedForUntilHalfOfTheStepHasPassed() {
        executor.allowsAsyncScheduling = true;
        ready = true;
        submitBoth();
        steps(6);
        waits.clear();
        ready = false;
        steps(1);
        assertThat(waits).containsExactly(500_000L);
    }

    /** It is computed again later, and its blocks are kept meanwhile. */
    @Test
    void aCancelledSequenceThatWaitsFreesItsBlocks() {
        submitBoth();
        steps(4);
        engine.cancel("constrained");
        engine.run();
        assertThat(engine.tokens("constrained")).isEmpty();
        assertThat(engine.loop.stats().gpu().used()).isZero();
    }

    @Test
    void aStepThatLeavesARowOutTeachesNothing() {
        Budget budget = new Budget(64, 8, 64);
        List<Integer> rowsOfDrafts = new ArrayList<>();
        PolicyScheduler scheduler = new PolicyScheduler(
                new GpuOnly(budget, Preemption.SWAP),
                draft -> 0,
                (draft, result, predicted, seconds) ->
                        rowsOfDrafts.add(draft.load(0).rows()),
                new DecisionLog(1));
        EngineHarness learning = new EngineHarness(executor, scheduler, budget);
        learning.submit("plain", new int[] {1, 2, 3}, sampling(false));
        learning.submit("constrained", new int[] {4, 5, 6}, sampling(true));
        for (int i = 0; i < 6; i++) {
            learning.step();
        }
        assertThat(rowsOfDrafts).as("of the prompts").containsExactly(6);
        ready = true;
        for (int i = 0; i < 6; i++) {
            learning.step();
        }
        assertThat(rowsOfDrafts).as("and of both decodes").hasSizeGreaterThan(3).endsWith(2, 2);
    }
}
