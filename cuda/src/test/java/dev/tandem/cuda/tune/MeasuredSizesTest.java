package dev.tandem.cuda.tune;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;

/** Which sizes are measured at the start: their number is the total that progress is told of. */
class MeasuredSizesTest {
    @Test
    void smallStepsAreMeasuredDenselyAndLargeOnesSparsely() {
        assertThat(GemmAutotuner.denseRows(256, 100)).containsExactly(64, 128, 192, 256);
        assertThat(GemmAutotuner.denseRows(256, 8192)).hasSize(16).endsWith(1024);
        assertThat(GemmAutotuner.sparseRows(100)).containsExactly(100);
        assertThat(GemmAutotuner.sparseRows(5000)).containsExactly(1024, 1280, 1536, 1792, 2048, 4096, 5000);
    }

    @Test
    void gateAndUpAreMeasuredUpToTheLargestStep() {
        assertThat(GemmAutotuner.pairRows(255)).isEmpty();
        assertThat(GemmAutotuner.pairRows(256)).containsExactly(256);
        assertThat(GemmAutotuner.pairRows(1500)).containsExactly(256, 512, 1024, 1500);
    }

    @Test
    void aProfileOfALargeExecutorHasAllPoints() {
        ProfilePoints points = ProfilePoints.of(512, 8192, 100_000, 1000);
        assertThat(points.rows())
                .startsWith(1, 8, 16, 24, 32, 40, 48, 56, 64, 96)
                .hasSize(18)
                .endsWith(512);
        assertThat(points.prompts()).startsWith(576, 640, 704).endsWith(1216, 1280, 1536, 1792, 2048, 3072, 4096);
        assertThat(points.prefills()).containsExactly(128, 512, 2048);
        assertThat(points.contexts()).containsExactly(512, 2048, 8192, 32_768, 131_072);
        assertThat(points.transfers()).containsExactly(1, 8, 64, 512);
        assertThat(points.count()).isEqualTo(18 + 17 + 3 + 5 + 4);
    }

    @Test
    void aProfileOfASmallExecutorEndsAtItsLimits() {
        ProfilePoints points = ProfilePoints.of(20, 100, 40, 9);
        assertThat(points.rows()).containsExactly(1, 8, 16);
        assertThat(points.prompts()).containsExactly(64, 100);
        assertThat(points.prefills()).containsExactly(100);
        assertThat(points.contexts()).containsExactly(512, 640);
        assertThat(points.transfers()).containsExactly(1, 8);
        assertThat(ProfilePoints.of(512, 700, 50, 0).prompts()).containsExactly(576, 640, 700);
    }
}
