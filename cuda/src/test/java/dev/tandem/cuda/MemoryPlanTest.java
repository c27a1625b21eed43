package dev.tandem.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.cuda.ffi.CudaException;
import dev.tandem.cuda.forward.ForwardBuffers;
import dev.tandem.cuda.hostattention.HostLinkMemory;
import dev.tandem.cuda.kernels.GpuRig;
import dev.tandem.cuda.kernels.ModelShape;
import dev.tandem.cuda.kv.KvPools;
import dev.tandem.model.config.DataType;
import java.util.List;
import org.junit.jupiter.api.Test;

/** How GPU memory is divided. It needs no GPU. */
class MemoryPlanTest {
    private static final long GIB = 1L << 30;
    /** Two layers; a KV block takes 8 KiB per layer. */
    private final ModelShape shape = GpuRig.shape(4, 2, 64, 256, 512, 301, DataType.FLOAT16);

    private static CudaOptions options(int maxRows, int maxSequences, int attentionThreads) {
        return CudaOptions.builder(DataType.FLOAT16, maxRows, maxSequences)
                .memoryUtilization(0.9)
                .attentionThreads(attentionThreads, false, 1_000_000_000L)
                .build();
    }

    @Test
    void noAttentionThreadsMeansNoSlotsNoSecondSubBatchAndNoStaging() {
        MemoryPlan plan = MemoryPlan.of(options(2048, 100, 0));
        assertThat(plan.slots()).isZero();
        assertThat(plan.offloadedBlocks(shape)).isZero();
        assertThat(plan.rows()).isEqualTo(new ForwardBuffers.Rows(2048, 0, 100));
        assertThat(plan.decodeRows()).isEqualTo(128);
        assertThat(plan.graphRows()).isEqualTo(256);
    }

    @Test
    void slotsAddToTheMaxRows() {
        MemoryPlan plan = MemoryPlan.of(options(2048, 100, 4));
        int slots = HostLinkMemory.USUAL_SLOTS;
        assertThat(plan.rows()).isEqualTo(new ForwardBuffers.Rows(2048 + slots, 100 + slots, 100 + slots));
        assertThat(plan.offloadedBlocks(shape)).isEqualTo(8192 / 16);
        assertThat(plan.tables(10, shape).max())
                .containsExactly((int) (10 + KvPools.sharedPages(10)) + 100 + 8192 / 16);
    }

    /** Each of a kind's groups lists its part of the pages; those with a window, no more than sequences hold. */
    @Test
    void groupsOfAKindShareThePages() {
        MemoryPlan plan = MemoryPlan.of(options(256, 10, 4));
        ModelShape layers = GpuRig.shape(6, 4, 2, 64, 256, 512, 301, DataType.FLOAT16);
        ModelShape grouped = GpuRig.withWindows(layers, List.of(100, 100, 0, 100, 100, 0)); // pages of two layers
        int more = 10 + 8192 / 16;
        // 256 rows of a timed step, though at most 10 sequences are served
        int held = (int) (256L * grouped.layout(256).kinds().getLast().window().maxHeld() / 16);
        assertThat(grouped.layersPerPage()).isEqualTo(2);
        assertThat(plan.tables(20, grouped).max())
                .as("few pages")
                .containsExactly(3 * (20 + 80) + more, 3 * (20 + 80) / 2 + more);
        assertThat(plan.tables(20_000, grouped).max())
                .as("many pages")
                .containsExactly(3 * (20_000 + 80_000) + more, held + more);
    }

    @Test
    void strategiesWithAndWithoutOffloadGetTheSameKvBlocks() {
        int gpuOnly = MemoryPlan.of(options(2048, 100, 0)).kvBlocks(shape, 0.5, GIB, 8 * GIB, 10 * GIB);
        int hybrid = MemoryPlan.of(options(2048, 100, 4)).kvBlocks(shape, 0.5, GIB, 8 * GIB, 10 * GIB);
        assertThat(hybrid).isEqualTo(gpuOnly);
    }

    @Test
    void graphsCoverAtMost512Rows() {
        MemoryPlan plan = MemoryPlan.of(options(8192, 2000, 0));
        assertThat(plan.decodeRows()).isEqualTo(512);
        assertThat(plan.graphRows()).isEqualTo(512);
    }

    @Test
    void kvBlocksUseTheMemoryLeftByWeightsAndReserve() {
        MemoryPlan plan = MemoryPlan.of(options(2048, 100, 0));
        long blockBytes = shape.blockBytes();
        long list = 64; // of copies to the host, though it has no page
        assertThat(plan.kvBlocks(shape, 0.5, GIB, 8 * GIB, 10 * GIB))
                .isEqualTo((int) ((4 * GIB - (512L << 20) - list) / blockBytes));
        assertThat(plan.kvBlocks(shape, 1, GIB, GIB, 10 * GIB))
                .as("other processes use the rest")
                .isEqualTo((int) ((GIB - (512L << 20) - list) / blockBytes));
    }

    /** Three groups list a block three times in each of three buffers, and might do so with as many in either kind. */
    @Test
    void kvBlocksOfGroupsLeaveRoomForTheirTables() {
        MemoryPlan plan = MemoryPlan.of(options(2048, 100, 0));
        ModelShape layers = GpuRig.shape(6, 4, 2, 64, 256, 512, 301, DataType.FLOAT16);
        ModelShape grouped = GpuRig.withWindows(layers, List.of(100, 100, 0, 100, 100, 0));
        long tables = 3 * 4 * 5 * (2 * 3 - 1);
        assertThat(plan.kvBlocks(grouped, 0.5, GIB, 8 * GIB, 10 * GIB))
                .isEqualTo((int) ((4 * GIB - (512L << 20)) / (layers.blockBytes() + tables)));
    }

    /** Three groups of two layers: a page of 64 tokens has 64 KiB, and the list has 32 bytes for each and a count. */
    @Test
    void kvBlocksLeaveRoomForTheListOfCopiesToTheHost() {
        ModelShape layers = GpuRig.shape(6, 4, 2, 64, 256, 512, 301, DataType.FLOAT16);
        ModelShape grouped = GpuRig.withWindows(layers, List.of(100, 100, 0, 100, 100, 0));
        MemoryPlan plan = MemoryPlan.of(CudaOptions.builder(DataType.FLOAT16, 2048, 100)
                .hostBytes(3 * 128 * GIB)
                .build());
        long list = 32 * (1 + 3 * 128 * GIB / (64 << 10));
        assertThat(list).as("192 MiB").isGreaterThan(192 << 20);
        long tables = 3 * 4 * 5 * (2 * 3 - 1);
        assertThat(plan.kvBlocks(grouped, 0.5, GIB, 8 * GIB, 10 * GIB))
                .isEqualTo((int) ((4 * GIB - (512L << 20) - list) / (layers.blockBytes() + tables)));
        assertThatThrownBy(() -> plan.kvBlocks(grouped, 0.5, 5 * GIB - (600L << 20), 8 * GIB, 10 * GIB))
                .as("without the list, 88 MiB would be left")
                .hasMessageContaining("take 4.60 GiB of the 5.00 GiB")
                .hasMessageContaining("--host-kv");
    }

    @Test
    void anErrorAboutTooLittleMemoryNamesTheFlags() {
        MemoryPlan plan = MemoryPlan.of(options(2048, 100, 0));
        assertThatThrownBy(() -> plan.kvBlocks(shape, 0.25, 2 * GIB, 8 * GIB, 8 * GIB))
                .isInstanceOf(CudaException.class)
                .hasMessageContaining("--gpu-memory-utilization 0.25")
                .hasMessageContaining("--max-num-batched-tokens");
    }
}
