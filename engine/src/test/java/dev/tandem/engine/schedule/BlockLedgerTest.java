package dev.tandem.engine.schedule;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.engine.kv.KvCache;
import dev.tandem.engine.kv.KvTier;
import dev.tandem.engine.kv.PrefillStaging;
import dev.tandem.engine.kv.PrefixCacheOptions;
import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.step.AttentionSite;
import org.junit.jupiter.api.Test;

/**
 * Drafts whose moves need room in one tier before other moves make it: sequences move to the host before others leave
 * it. Blocks have 4 tokens.
 */
class BlockLedgerTest {
    private static final Budget BUDGET = new Budget(64, 8, 64);

    private static Scene scene(int gpuBlocks, int hostBlocks) {
        return new Scene(
                new KvCache(4, 4, gpuBlocks, hostBlocks, PrefillStaging.NONE, PrefixCacheOptions.on(1), Long.MAX_VALUE),
                BUDGET);
    }

    /** Leaves the whole blocks of a prompt cached in the host tier, where nobody holds them. */
    private static void cacheOnHost(Scene scene, int token, int length) {
        Sequence ended = scene.content(token).host(length);
        scene.committer.register(ended, length - 1);
        scene.committer.remove(ended);
    }

    private static void commit(Scene scene, StepDraft draft) {
        scene.complete(scene.committer.commit(draft));
    }

    /** A draft in which one sequence leaves the GPU, one returns to it, and one waits whose prefix the host caches. */
    private static final class Moves {
        final Scene scene;
        final Sequence leaving;
        final Sequence returning;
        final Sequence starting;
        final StepDraft draft;

        Moves(int gpuBlocks, int hostBlocks) {
            scene = scene(gpuBlocks, hostBlocks);
            cacheOnHost(scene, 1, 9);
            leaving = scene.content(2).gpu(8);
            returning = scene.content(3).host(12);
            starting = scene.content(1).waiting(12);
            draft = new StepDraft(scene.state, BUDGET);
        }

        void move() {
            draft.evict(leaving, true);
            draft.bringIn(returning);
            draft.add(0, returning, 1, AttentionSite.GPU_FROM_GPU);
        }
    }

    @Test
    void aHitOnTheHostLeavesTheRoomOfSequencesThatMoveThere() {
        Moves moves = new Moves(8, 5);
        moves.move();
        assertThat(moves.draft.hostHit(moves.starting))
                .as("its blocks are those that the move needs")
                .isZero();
        assertThat(moves.draft.missingOnHost(moves.starting)).isEqualTo(3);
        moves.draft.add(0, moves.leaving, 1, AttentionSite.CPU_FROM_HOST);
        moves.draft.start(moves.starting, 12, AttentionSite.GPU_PREFILL_OFFLOAD);
        commit(moves.scene, moves.draft);
        assertThat(moves.leaving.table().tier()).isEqualTo(KvTier.HOST);
        assertThat(moves.returning.table().tier()).isEqualTo(KvTier.GPU);
    }

    @Test
    void aHitOnTheHostIsTakenBesideMovesThatItLeavesRoom() {
        Moves moves = new Moves(8, 7);
        moves.move();
        assertThat(moves.draft.hostHit(moves.starting)).isEqualTo(8);
        moves.draft.start(moves.starting, 4, AttentionSite.GPU_PREFILL_OFFLOAD);
        commit(moves.scene, moves.draft);
        assertThat(moves.starting.computed()).isEqualTo(12);
    }

    @Test
    void aCopyToTheGpuLeavesTheRoomOfSequencesThatMoveToTheHost() {
        Moves moves = new Moves(12, 5);
        assertThat(moves.draft.hit(moves.starting)).isEqualTo(8);
        moves.move();
        assertThat(moves.draft.hit(moves.starting)).isZero();
        moves.draft.start(moves.starting, 12, AttentionSite.GPU_FROM_GPU);
        commit(moves.scene, moves.draft);
        assertThat(moves.leaving.table().tier()).isEqualTo(KvTier.HOST);
    }

    @Test
    void aSequenceDoesNotMoveIntoBlocksThatAnotherOneLeavesInTheSameStep() {
        Scene scene = scene(8, 4);
        Sequence first = scene.content(1).gpu(8);
        Sequence second = scene.content(2).gpu(8);
        Sequence returning = scene.content(3).host(8);
        StepDraft draft = new StepDraft(scene.state, BUDGET);
        draft.evict(first, true);
        draft.bringIn(returning);
        draft.add(0, returning, 1, AttentionSite.GPU_FROM_GPU);
        assertThat(draft.hostHasRoomFor(second)).isFalse();
        draft.evict(second, true);
        assertThat(draft.drops()).containsExactly(second);
        commit(scene, draft);
    }

    @Test
    void anUndoneStartGivesNoBlocksBackThatASequenceLeavesLater() {
        Scene scene = scene(12, 3);
        Sequence returning = scene.content(1).host(9);
        scene.committer.register(returning, 8);
        Sequence leaving = scene.content(2).gpu(8);
        Sequence starting = scene.content(1).waiting(12);
        StepDraft draft = new StepDraft(scene.state, BUDGET);
        draft.start(starting, 4, AttentionSite.GPU_PREFILL_OFFLOAD);
        draft.bringIn(returning);
        draft.removePrefillOffload(0);
        draft.add(0, returning, 1, AttentionSite.GPU_FROM_GPU);
        draft.evict(leaving, true);
        assertThat(draft.drops())
                .as("the host has one free block before the other one leaves it")
                .containsExactly(leaving);
        commit(scene, draft);
    }

    @Test
    void anUndoneStartGivesNoBlocksToStageInThatASequenceLeavesLater() {
        Scene scene = scene(3, 8);
        Sequence leaving = scene.content(1).gpu(9);
        scene.committer.register(leaving, 8);
        Sequence starting = scene.content(1).waiting(12);
        StepDraft draft = new StepDraft(scene.state, BUDGET);
        draft.start(starting, 4, AttentionSite.GPU_PREFILL_OFFLOAD);
        assertThat(draft.blocks().uses()).containsKey(starting);
        draft.evict(leaving, true);
        draft.removePrefillOffload(0);
        assertThat(draft.freeGpu()).isEqualTo(3);
        assertThat(draft.blocks().borrowable()).isEqualTo(1);
        commit(scene, draft);
    }
}
