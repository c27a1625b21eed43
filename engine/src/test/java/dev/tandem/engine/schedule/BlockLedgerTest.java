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

    @Test
    void aHitOnTheHostLeavesTheRoomOfSequencesThatMoveThere() {
        Scene scene = scene(8, 5);
        cacheOnHost(scene, 1, 9);
        Sequence leaving = scene.content(2).gpu(8);
        Sequence returning = scene.content(3).host(12);
        Sequence starting = scene.content(1).waiting(12);
        StepDraft draft = new StepDraft(scene.state, BUDGET);
        draft.evict(leaving, true);
        draft.bringIn(returning);
        assertThat(draft.hostHit(starting))
                .as("its blocks are those that the move needs")
                .isZero();
        assertThat(draft.missingOnHost(starting)).isEqualTo(3);
        draft.add(0, returning, 1, AttentionSite.GPU_FROM_GPU);
        draft.add(0, leaving, 1, AttentionSite.CPU_FROM_HOST);
        draft.start(starting, 12, AttentionSite.GPU_PREFILL_OFFLOAD);
        commit(scene, draft);
        assertThat(leaving.table().tier()).isEqualTo(KvTier.HOST);
        assertThat(returning.table().tier()).isEqualTo(KvTier.GPU);
    }

    @Test
    void aHitOnTheHostIsTakenBesideMovesThatItLeavesRoom() {
        Scene scene = scene(8, 7);
        cacheOnHost(scene, 1, 9);
        Sequence leaving = scene.content(2).gpu(8);
        Sequence returning = scene.content(3).host(12);
        Sequence starting = scene.content(1).waiting(12);
        StepDraft draft = new StepDraft(scene.state, BUDGET);
        draft.evict(leaving, true);
        draft.bringIn(returning);
        assertThat(draft.hostHit(starting)).isEqualTo(8);
        draft.add(0, returning, 1, AttentionSite.GPU_FROM_GPU);
        draft.start(starting, 4, AttentionSite.GPU_PREFILL_OFFLOAD);
        commit(scene, draft);
        assertThat(starting.computed()).isEqualTo(12);
    }

    @Test
    void aCopyToTheGpuLeavesTheRoomOfSequencesThatMoveToTheHost() {
        Scene scene = scene(12, 5);
        cacheOnHost(scene, 1, 9);
        Sequence leaving = scene.content(2).gpu(8);
        Sequence returning = scene.content(3).host(12);
        Sequence starting = scene.content(1).waiting(12);
        StepDraft draft = new StepDraft(scene.state, BUDGET);
        assertThat(draft.hit(starting)).isEqualTo(8);
        draft.evict(leaving, true);
        draft.bringIn(returning);
        assertThat(draft.hit(starting)).isZero();
        draft.add(0, returning, 1, AttentionSite.GPU_FROM_GPU);
        draft.start(starting, 12, AttentionSite.GPU_FROM_GPU);
        commit(scene, draft);
        assertThat(leaving.table().tier()).isEqualTo(KvTier.HOST);
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
