package dev.tandem.cuda.gemm;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;

/** Split-K of Llama-3.1-8B's matrices in strips of 128 weight rows, on 132 and on 16 multiprocessors. */
class SplitKTest {
    private static final int FIXED = 512;

    @Test
    void oneBlockPerMultiprocessorFillsOneWave() {
        assertThat(SplitK.of(48, 4096, 132, FIXED)).as("q, k and v").isEqualTo(2);
        assertThat(SplitK.of(32, 4096, 132, FIXED)).as("output").isEqualTo(4);
        assertThat(SplitK.of(32, 14336, 132, FIXED)).as("down").isEqualTo(4);
    }

    @Test
    void twoBlocksPerMultiprocessorFillSeveralWaves() {
        assertThat(SplitK.of(48, 4096, 264, 0)).as("q, k and v").isEqualTo(5);
        assertThat(SplitK.of(32, 14336, 264, 0)).as("down").isEqualTo(8);
    }

    @Test
    void noSplitIfStripsAlreadyFillTheGpu() {
        assertThat(SplitK.of(32, 4096, 16, FIXED)).isEqualTo(1);
        assertThat(SplitK.of(264, 4096, 264, 0)).isEqualTo(1);
    }

    @Test
    void splitsHaveAMinLengthAndAMaxCount() {
        assertThat(SplitK.of(1, 72, 132, 0)).isEqualTo(1);
        assertThat(SplitK.of(1, 1024, 132, 0)).isEqualTo(4);
        assertThat(SplitK.of(1, 1 << 20, 132, 0)).isEqualTo(16);
    }
}
