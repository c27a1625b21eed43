package dev.tandem.engine;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.engine.executor.PiggybackedPrefill;
import dev.tandem.engine.kv.KvCache;
import dev.tandem.engine.request.Request;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.request.TextDecoder;
import dev.tandem.engine.sampling.TokenSampler;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.PlanCommitter;
import dev.tandem.engine.schedule.PolicyScheduler;
import dev.tandem.engine.schedule.Preemption;
import dev.tandem.engine.schedule.SchedulerState;
import dev.tandem.engine.step.Chunk;
import dev.tandem.engine.step.StepPlan;
import dev.tandem.engine.step.SubBatch;
import dev.tandem.engine.strategy.GpuOnly;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/** Plans as text: {@code id@start+rows} is a chunk, with {@code !} if it samples; {@code id:GPU>HOST} is a swap. */
class GpuOnlyTest {
    private final SchedulerState state = new SchedulerState(new KvCache(4, 6, 6));
    private final PlanCommitter committer = new PlanCommitter(state);
    private final Map<Long, Sequence> sequences = new HashMap<>();

    private Sequence add(int prompt, int priority) {
        int[] tokens = new int[prompt];
        SamplingParams params = SamplingParams.builder().maxTokens(50).build();
        Request request =
                new Request("r" + sequences.size(), tokens, params, priority, TextDecoder.none(), event -> {});
        Sequence sequence =
                new Sequence(sequences.size(), request, 0, 100, new TokenSampler(params, tokens, Set.of(), 1));
        sequences.put(sequence.key(), sequence);
        committer.enqueue(sequence);
        return sequence;
    }

    private String step(PolicyScheduler scheduler) {
        StepPlan plan = scheduler.plan(state, committer);
        List<String> words = new ArrayList<>();
        plan.swaps().forEach(swap -> words.add("r" + swap.sequence() + ":" + swap.from() + ">" + swap.to()));
        for (SubBatch batch : plan.subBatches()) {
            for (Chunk chunk : batch.chunks()) {
                words.add("r" + chunk.sequence() + "@" + chunk.start() + "+" + chunk.rows()
                        + (chunk.sampler().isPresent() ? "!" : ""));
                Sequence sequence = sequences.get(chunk.sequence());
                sequence.advance(chunk.rows());
                if (chunk.sampler().isPresent()) {
                    sequence.append(0, 0);
                }
            }
        }
        state.checkIntegrity();
        return String.join(" ", words);
    }

    private static PolicyScheduler scheduler(Preemption preemption, int tokens, int sequences, int chunk) {
        return PolicyScheduler.of(new GpuOnly(new Budget(tokens, sequences, chunk), preemption));
    }

    @Test
    void decodesGoFirstAndPrefillsFillTheBudget() {
        PolicyScheduler scheduler = scheduler(Preemption.SWAP, 8, 4, 6);
        add(3, 0);
        assertThat(step(scheduler)).isEqualTo("r0@0+3!");
        add(9, 0);
        assertThat(step(scheduler)).isEqualTo("r0@3+1! r1@0+6");
        assertThat(step(scheduler)).isEqualTo("r0@4+1! r1@6+3!");
        assertThat(step(scheduler)).isEqualTo("r0@5+1! r1@9+1!");
    }

    @Test
    void lowerPriorityValuesGoFirst() {
        PolicyScheduler scheduler = scheduler(Preemption.SWAP, 4, 1, 4);
        add(2, 5);
        add(2, 1);
        assertThat(step(scheduler)).isEqualTo("r1@0+2!");
    }

    @Test
    void aPromptWaitsIfTheForecastExceedsThePool() {
        for (int i = 0; i < 16; i++) {
            Sequence ended = add(1, 0);
            IntStream.range(0, 12).forEach(token -> ended.append(0, 0));
            committer.remove(ended);
        }
        PolicyScheduler scheduler = scheduler(Preemption.RECOMPUTE, 16, 4, 16);
        add(4, 0);
        assertThat(step(scheduler)).isEqualTo("r16@0+4!");
        add(4, 0);
        // 4 of 6 blocks are free, and both would grow to 4 each; once the first has 8 tokens of output, 4 and 2
        for (int i = 0; i < 7; i++) {
            assertThat(step(scheduler)).isEqualTo("r16@" + (4 + i) + "+1!");
        }
        assertThat(step(scheduler)).isEqualTo("r16@11+1! r17@0+4!");
        assertThat(state.preemptions()).isZero();
    }

    @Test
    void theYoungestIsSwappedOutAndIn() {
        PolicyScheduler scheduler = scheduler(Preemption.SWAP, 16, 4, 16);
        add(8, 0);
        add(8, 0);
        assertThat(step(scheduler)).isEqualTo("r0@0+8! r1@0+8!");
        for (int i = 0; i < 4; i++) {
            assertThat(step(scheduler)).isEqualTo("r0@" + (8 + i) + "+1! r1@" + (8 + i) + "+1!");
        }
        assertThat(step(scheduler)).as("six blocks are full").isEqualTo("r1:GPU>HOST r0@12+1!");
        Sequence first = sequences.get(0L);
        while (first.length() < 20) {
            assertThat(step(scheduler)).startsWith("r0@");
        }
        committer.remove(first);
        assertThat(step(scheduler)).isEqualTo("r1:HOST>GPU r1@12+1!");
    }

    @Test
    void recomputationStartsOver() {
        PolicyScheduler scheduler = scheduler(Preemption.RECOMPUTE, 16, 4, 16);
        add(8, 0);
        add(8, 0);
        for (int i = 0; i < 5; i++) {
            step(scheduler);
        }
        assertThat(step(scheduler)).isEqualTo("r0@12+1!");
        committer.remove(sequences.get(0L));
        assertThat(step(scheduler)).as("prompt and output are computed again").isEqualTo("r1@0+13!");
    }

    @Test
    void aPromptWaitsUntilAllOfItFits() {
        PolicyScheduler scheduler = scheduler(Preemption.SWAP, 32, 4, 32);
        add(12, 0);
        add(12, 0);
        assertThat(step(scheduler))
                .as("6 blocks hold both prompts but not a block to grow")
                .isEqualTo("r0@0+12!");
    }

    private static PolicyScheduler bypassing(int queueBypasses) {
        return PolicyScheduler.of(
                new GpuOnly(new Budget(32, 8, 32), Preemption.SWAP, queueBypasses, PiggybackedPrefill.NONE));
    }

    @Test
    void smallPromptsBypassOneThatDoesNotFitABoundedNumberOfTimes() {
        PolicyScheduler scheduler = bypassing(2);
        add(12, 0);
        add(12, 0);
        add(3, 0);
        assertThat(step(scheduler)).as("r1 does not fit").isEqualTo("r0@0+12! r2@0+3!");
        committer.remove(sequences.get(2L));
        add(3, 0);
        assertThat(step(scheduler)).isEqualTo("r0@12+1! r3@0+3!");
        committer.remove(sequences.get(3L));
        add(3, 0);
        assertThat(step(scheduler)).as("r1 has been bypassed twice").isEqualTo("r0@13+1!");
        assertThat(sequences.get(1L).timings().bypassed()).isEqualTo(2);
        committer.remove(sequences.get(0L));
        assertThat(step(scheduler)).as("r1 first, then the request behind it").isEqualTo("r1@0+12! r4@0+3!");
    }

    @Test
    void promptsBypassASwappedOutRequestABoundedNumberOfTimes() {
        PolicyScheduler scheduler = bypassing(2);
        add(8, 0);
        add(8, 0);
        for (int i = 0; i < 5; i++) {
            step(scheduler);
        }
        assertThat(step(scheduler)).as("six blocks are full").isEqualTo("r1:GPU>HOST r0@12+1!");
        add(3, 0);
        assertThat(step(scheduler)).as("r1 does not fit").isEqualTo("r0@13+1! r2@0+3!");
        committer.remove(sequences.get(2L));
        add(3, 0);
        assertThat(step(scheduler)).isEqualTo("r0@14+1! r3@0+3!");
        committer.remove(sequences.get(3L));
        add(3, 0);
        assertThat(step(scheduler)).as("r1 has been bypassed twice").isEqualTo("r0@15+1!");
        assertThat(sequences.get(1L).timings().bypassed()).isEqualTo(2);
        committer.remove(sequences.get(0L));
        assertThat(step(scheduler)).startsWith("r1:HOST>GPU r1@12+1!");
    }

    @Test
    void noRequestBypassesOneOfHigherPriority() {
        PolicyScheduler scheduler = bypassing(2);
        add(12, 0);
        add(12, 0);
        add(3, 1);
        assertThat(step(scheduler)).isEqualTo("r0@0+12!");
    }

    @Test
    void withoutQueueBypassTheOrderOfArrivalHolds() {
        PolicyScheduler scheduler = bypassing(0);
        add(12, 0);
        add(12, 0);
        add(3, 0);
        assertThat(step(scheduler)).isEqualTo("r0@0+12!");
    }
}
