package dev.tandem.cuda.forward;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.cuda.forward.SmPartition.Prompts;
import dev.tandem.cuda.kernels.GpuRig;
import dev.tandem.cuda.kernels.ModelShape;
import dev.tandem.model.config.DataType;
import org.junit.jupiter.api.Test;

class SmPartitionTest {
    private static final ModelShape LLAMA = GpuRig.shape(32, 32, 8, 128, 4096, 14336, 128256, DataType.BFLOAT16);
    /** Work units of 22 decode tokens with a context of 1,000 tokens each. */
    private static final int UNITS = 22 * 63 * 8;

    private final SmPartition partition = new SmPartition(LLAMA, 132, 3, true, 4_900_000);

    @Test
    void prefillUsesAllMultiprocessorsIfThereAreNoDecodeRows() {
        assertThat(partition.prompts(0, 5, 75)).isEqualTo(new Prompts(132, 3));
        assertThat(partition.prompts(0, 64, 1000)).isEqualTo(new Prompts(132, 1));
    }

    @Test
    void shortChunksUseFewMultiprocessorsBesideDecodeRows() {
        assertThat(partition.prompts(UNITS, 4, 60)).isEqualTo(new Prompts(32, 1));
        assertThat(partition.prompts(UNITS, 5, 75)).isEqualTo(new Prompts(40, 1));
    }

    @Test
    void longPromptsAndDecodeRowsRunOneAfterTheOther() {
        assertThat(partition.prompts(100, 60, 8000).blocks()).isEqualTo(132);
    }

    @Test
    void attentionOverlapsOnlyIfFewMultiprocessorsReachTheBandwidth() {
        assertThat(SmPartition.of(LLAMA, 132, 3, true, 4_900_000).together()).isTrue();
        assertThat(SmPartition.of(LLAMA, 132, 3, false, 4_900_000).together()).isFalse();
        assertThat(SmPartition.of(LLAMA, 16, 3, true, 4_900_000).together()).isFalse();
        assertThat(SmPartition.of(LLAMA, 132, 3, true, 0).together())
                .as("unknown bandwidth")
                .isFalse();
        assertThat(new SmPartition(LLAMA, 16, 3, true, 4_900_000)
                        .prompts(UNITS, 2, 32)
                        .blocks())
                .isEqualTo(16);
    }

    @Test
    void decodeRowsAlwaysGetMultiprocessors() {
        for (int tiles = 1; tiles <= 64; tiles++) {
            int blocks = partition.prompts(4 * UNITS, tiles, 20 * tiles).blocks();
            assertThat(blocks == 132 || blocks <= 99)
                    .as("%d tiles, %d blocks", tiles, blocks)
                    .isTrue();
        }
    }

    @Test
    void shortChunksSplitTheirContext() {
        assertThat(partition.promptSplits(1, 16)).isEqualTo(8);
        assertThat(partition.promptSplits(10, 192)).isEqualTo(2);
        assertThat(partition.promptSplits(64, 2048)).isEqualTo(1);
    }
}
