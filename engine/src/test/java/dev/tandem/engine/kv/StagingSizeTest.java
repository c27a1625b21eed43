package dev.tandem.engine.kv;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.engine.kv.StagingSize.Layout;
import org.junit.jupiter.api.Test;

class StagingSizeTest {
    /** Llama-3.1-8B and Llama-2-7B in 16 bits: 4 and 16 KiB per token and layer. */
    private static final Layout LLAMA_3 = new Layout(16, 64, 32, 131_072);

    private static final Layout LLAMA_2 = new Layout(16, 64, 32, 524_288);

    @Test
    void fourLayersOfAStepsTokensAreInTransit() {
        StagingSize staging = StagingSize.of(832, LLAMA_2);
        assertThat(staging).isEqualTo(new StagingSize(832, 832 * 16_384L, 832 * 16_384L));
        assertThat(staging.bytes()).isEqualTo(4 * 832 * 16_384L);
        assertThat(staging.blocks(LLAMA_2)).as("6.5 blocks, rounded up").isEqualTo(7);
    }

    @Test
    void stagingDoesNotGrowWithTheBatchBeyondItsMaxTokens() {
        StagingSize staging = StagingSize.of(20_480, LLAMA_3);
        assertThat(staging).isEqualTo(StagingSize.of(8192, LLAMA_3));
        assertThat(staging.blocks(LLAMA_3)).isEqualTo(48);
    }

    @Test
    void copyBuffersAreBoundedWhereATokenIsLarge() {
        assertThat(StagingSize.of(4096, LLAMA_2)).isEqualTo(new StagingSize(4096, 64L << 20, 16L << 20));
    }

    @Test
    void tokensAreWholeGpuBlocksAndCopiesWholeHostBlocks() {
        assertThat(StagingSize.of(20, LLAMA_3)).isEqualTo(new StagingSize(32, 32 * 4096L, 64 * 4096L));
    }

    @Test
    void poolAndStagingShareTheBlocks() {
        assertThat(StagingSize.NONE.poolBlocks(54, LLAMA_2)).isEqualTo(54);
        assertThat(StagingSize.of(832, LLAMA_2).poolBlocks(54, LLAMA_2)).isEqualTo(47);
        assertThat(StagingSize.of(832, LLAMA_2).poolBlocks(8, LLAMA_2)).isEqualTo(1);
    }

    @Test
    void stagingThatLeavesNoBlockIsRefused() {
        assertThatThrownBy(() -> StagingSize.of(832, LLAMA_2).poolBlocks(7, LLAMA_2))
                .isInstanceOf(ConfigurationException.class)
                .hasMessageContaining("7 blocks leaves none")
                .hasMessageContaining("takes 7")
                .hasMessageContaining("--num-gpu-blocks-override")
                .hasMessageContaining("--max-num-batched-tokens");
    }
}
