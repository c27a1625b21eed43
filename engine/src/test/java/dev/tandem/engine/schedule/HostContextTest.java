package dev.tandem.engine.schedule;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.engine.kv.KvCache;
import dev.tandem.engine.kv.KvTier;
import dev.tandem.engine.kv.PrefillStaging;
import dev.tandem.engine.kv.PrefixCacheOptions;
import dev.tandem.engine.request.PrefixCaching;
import dev.tandem.engine.request.Request;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.request.TextDecoder;
import dev.tandem.engine.sampling.TokenSampler;
import dev.tandem.engine.step.AttentionSite;
import java.util.List;
import java.util.Set;
import java.util.stream.IntStream;
import java.util.stream.LongStream;
import org.junit.jupiter.api.Test;

/** Two host sequences of 19 tokens, whose first 16 are the same: two host blocks. */
class HostContextTest {
    private static final Budget BUDGET = new Budget(400, 20, 400);

    private static Sequence sequence(PlanCommitter committer, long key, int[] prompt) {
        SamplingParams params = SamplingParams.builder().maxTokens(10).build();
        Request request = new Request("r" + key, prompt, params, 0, TextDecoder.none(), event -> {});
        Sequence sequence = new Sequence(
                key, request.withCaching(PrefixCaching.SHARED), 0, 100, new TokenSampler(params, prompt, Set.of(), 1));
        committer.enqueue(sequence);
        return sequence;
    }

    /** Tokens that the second sequence hits on the host, and the host's max and expected context with a third one. */
    private record Counted(int secondHit, long context, long expected) {}

    private static Counted counted(PrefixCacheOptions options) {
        return counted(options, 0);
    }

    /** @param ended sequences that have ended after 6 tokens */
    private static Counted counted(PrefixCacheOptions options, int ended) {
        SchedulerState state =
                new SchedulerState(new KvCache(4, 8, 30, 20, PrefillStaging.NONE, options, Long.MAX_VALUE));
        PlanCommitter committer = new PlanCommitter(state);
        for (int i = 0; i < ended; i++) {
            Sequence sequence = sequence(committer, 100 + i, new int[] {1});
            IntStream.range(0, 6).forEach(token -> sequence.append(0, 0));
            committer.remove(sequence);
        }
        int hit = 0;
        for (int key = 0; key < 2; key++) {
            Sequence sequence = sequence(committer, key, new int[18]);
            StepDraft draft = new StepDraft(state, BUDGET);
            hit = draft.hostHit(sequence);
            draft.start(sequence, 18 - hit, AttentionSite.GPU_PREFILL_OFFLOAD);
            committer.commit(draft);
            sequence.advance(18 - hit);
            sequence.append(0, 0);
            committer.register(sequence, 18);
        }
        Sequence candidate = sequence(committer, 2, new int[] {1, 2, 3, 4, 5, 6, 7, 8});
        StepDraft draft = new StepDraft(state, BUDGET);
        return new Counted(hit, draft.maxHostContext(candidate), draft.expectedHostContext(List.of(candidate)));
    }

    /** Prompts of 18, 18 and 8 tokens, and at most 100 tokens with the output. */
    @Test
    void theExpectedContextIsInTheMiddleOfTheOutput() {
        assertThat(counted(PrefixCacheOptions.OFF).expected())
                .as("outputs are not known, so their limits count: 1.3 times 59, 59 and 54")
                .isEqualTo(76 + 76 + 70);
        assertThat(counted(PrefixCacheOptions.OFF, 16).expected())
                .as("16 have ended after 6 tokens, so 1.3 times 21, 21 and 11 is more than at the end")
                .isEqualTo(24 + 24 + 14);
        assertThat(counted(new PrefixCacheOptions(true, 1, -1), 16).expected())
                .as("shared tokens count for each sequence")
                .isEqualTo(24 + 24 + 14);
    }

    @Test
    void sharedTokensCountForEachSequenceThatAttendsToThem() {
        Counted alone = counted(PrefixCacheOptions.OFF);
        Counted shared = counted(new PrefixCacheOptions(true, 1, -1));
        assertThat(alone.secondHit()).isZero();
        assertThat(shared.secondHit()).isEqualTo(16);
        assertThat(shared.context()).isEqualTo(alone.context()).isGreaterThanOrEqualTo(19 + 19 + 8);
    }

    /** The expected context after some moves of a draft, which may have been asked before each. */
    private static long expectedAfter(int moves, boolean askedBefore) {
        Scene scene = new Scene(20, 40, BUDGET).limit(60);
        Sequence leaving = scene.gpu(30);
        Sequence returning = scene.host(20);
        Sequence dropped = scene.host(25);
        scene.host(10);
        Sequence starting = scene.waiting(12);
        Sequence candidate = scene.waiting(8);
        BlockLedger blocks = new BlockLedger(scene.state);
        List<Runnable> all = List.of(
                () -> blocks.evict(leaving, true),
                () -> blocks.bringIn(returning),
                () -> blocks.dropFromHost(dropped),
                () -> blocks.start(starting, KvTier.HOST),
                () -> blocks.undoHostStart(starting));
        for (Runnable move : all.subList(0, moves)) {
            if (askedBefore) {
                blocks.expectedHostContext(List.of(candidate));
            }
            move.run();
        }
        return blocks.expectedHostContext(List.of(candidate));
    }

    @Test
    void theExpectedContextFollowsTheMovesOfADraft() {
        for (int moves = 0; moves <= 5; moves++) {
            assertThat(expectedAfter(moves, true)).as("%d moves", moves).isEqualTo(expectedAfter(moves, false));
        }
        assertThat(LongStream.rangeClosed(0, 4).map(moves -> expectedAfter((int) moves, false)))
                .as("each move changes it")
                .doesNotHaveDuplicates();
        assertThat(expectedAfter(5, true)).as("the start is undone").isEqualTo(expectedAfter(3, true));
    }
}
