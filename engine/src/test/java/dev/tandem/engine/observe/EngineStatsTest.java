package dev.tandem.engine.observe;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.engine.kv.AttentionSpan;
import dev.tandem.engine.kv.BlockState;
import dev.tandem.engine.kv.KvCache;
import dev.tandem.engine.kv.KvLayout;
import dev.tandem.engine.kv.PrefillStaging;
import dev.tandem.engine.kv.PrefixCacheOptions;
import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Scene;
import dev.tandem.engine.schedule.StepDraft;
import dev.tandem.engine.step.AttentionSite;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Users read of blocks of all layers, though pools and tables have a page per group of layers. */
class EngineStatsTest {
    /** Three groups: one layer without a window, and two with one of 8 tokens. */
    private final KvLayout layout = KvLayout.of(List.of(0, 8, 8), 4, 8);
    /** 10 blocks of 4 tokens on the GPU, and 5 on the host. */
    private final KvCache kv = new KvCache(
            4,
            4,
            10 * layout.groups(),
            5 * layout.groups(),
            PrefillStaging.NONE,
            PrefixCacheOptions.on(1),
            Long.MAX_VALUE,
            layout,
            AttentionSpan.WHOLE);

    private static final Budget BUDGET = new Budget(64, 8, 64);

    private final Scene scene = new Scene(kv, BUDGET);

    private EngineStats stats() {
        return stats(scene);
    }

    /** With 300 bytes of KV per token in all layers. */
    private static EngineStats stats(Scene of) {
        return EngineStats.of(of.state, 0, 0, 300, "");
    }

    /** Blocks of the GPU by state, in the order of the states. */
    private List<Double> gpuBlocks() {
        return Arrays.stream(BlockState.values()).map(stats().gpu()::blocks).toList();
    }

    @Test
    void poolsAreCountedInBlocksOfAllLayers() {
        assertThat(stats().gpu().blocks()).isEqualTo(10);
        assertThat(stats().host().blocks()).isEqualTo(5);
        assertThat(stats().gpu().used()).isZero();
        scene.gpu(17); // 16 tokens in 4 blocks
        assertThat(stats().gpu().used()).isEqualTo(4);
    }

    @Test
    void blocksAreCountedByState() {
        assertThat(gpuBlocks()).containsExactly(10.0, 0.0, 0.0, 0.0, 0.0);
        Sequence sequence = scene.gpu(17);
        assertThat(gpuBlocks()).as("its KV is its own").containsExactly(6.0, 4.0, 0.0, 0.0, 0.0);
        scene.committer.register(sequence, 16);
        assertThat(gpuBlocks()).as("others may hit it").containsExactly(6.0, 0.0, 4.0, 0.0, 0.0);
        scene.committer.slide(sequence);
        assertThat(gpuBlocks())
                .as("pages behind the windows are cached, and the next token has a block")
                .containsExactly(15 / 3.0, 3 / 3.0, 8 / 3.0, 4 / 3.0, 0.0);
        scene.committer.resetPrefixes();
        assertThat(gpuBlocks()).as("nobody may hit it any more").containsExactly(19 / 3.0, 11 / 3.0, 0.0, 0.0, 0.0);
        scene.committer.quarantine(sequence);
        assertThat(gpuBlocks()).containsExactly(19 / 3.0, 0.0, 0.0, 0.0, 11 / 3.0);
    }

    @Test
    void aSwapCopiesTheKvWithinTheWindowsOnce() {
        Sequence sequence = scene.gpu(17);
        scene.committer.slide(sequence);
        StepDraft draft = new StepDraft(scene.state, BUDGET);
        draft.evict(sequence, true);
        scene.committer.commit(draft);
        // 16 tokens in the layers of one group, and 8 in those of the other two
        assertThat(stats().host().copiedBytes()).isEqualTo((16 + 8 + 8) * 100);
        assertThat(stats().gpu().copiedBytes()).isZero();
        draft = new StepDraft(scene.state, BUDGET);
        draft.bringIn(sequence);
        scene.committer.commit(draft);
        assertThat(stats().host().copiedBytes()).isEqualTo((16 + 8 + 8) * 100);
        assertThat(stats().gpu().copiedBytes()).isEqualTo((16 + 8 + 8) * 100);
    }

    /** Computes a prompt of 17 tokens in two chunks; its KV goes to host blocks of 8 tokens. */
    private static EngineStats afterPrefillOffload(PrefillStaging staging) {
        Scene offload = new Scene(new KvCache(4, 8, 20, 10, staging, PrefixCacheOptions.OFF, 0), BUDGET);
        Sequence sequence = offload.waiting(17);
        StepDraft draft = new StepDraft(offload.state, BUDGET);
        draft.start(sequence, 10, AttentionSite.GPU_PREFILL_OFFLOAD);
        offload.complete(offload.committer.commit(draft));
        draft = new StepDraft(offload.state, BUDGET);
        draft.add(0, sequence, 7, AttentionSite.GPU_PREFILL_OFFLOAD);
        offload.complete(offload.committer.commit(draft));
        return stats(offload);
    }

    @Test
    void anOffloadedPrefillLeavesByWholeHostBlocksAndItsEarlierChunksReturn() {
        EngineStats staged = afterPrefillOffload(new PrefillStaging(4, 8, 2));
        assertThat(staged.host().copiedBytes()).isEqualTo((10 + 2 + 7) * 300);
        assertThat(staged.gpu().copiedBytes()).isEqualTo(10 * 300);
        EngineStats direct = afterPrefillOffload(PrefillStaging.NONE);
        assertThat(direct.host().copiedBytes()).as("written where it stays").isZero();
        assertThat(direct.gpu().copiedBytes()).isZero();
    }

    @Test
    void whatIsUsedIsRoundedUpAndWhatIsCachedDown() {
        Sequence sequence = scene.gpu(17);
        scene.committer.register(sequence, 16);
        scene.committer.slide(sequence);
        assertThat(sequence.table().pages()).as("pages in use").isEqualTo(5 + 3 + 3);
        assertThat(stats().gpu().used()).isEqualTo(4);
        assertThat(kv.prefixCacheUse().gpu().cachedBlocks()).as("of 4 pages").isEqualTo(1);
    }

    @Test
    void requestsAreListedWithTheirBlocksOfAllLayers() {
        scene.gpu(17);
        scene.waiting(33); // 9 pages without a window, and 5 in each group with one
        assertThat(RequestSnapshot.of(scene.state, 0).requests())
                .extracting(RequestSnapshot.Entry::blocks)
                .containsExactly(4, 7);
    }
}
