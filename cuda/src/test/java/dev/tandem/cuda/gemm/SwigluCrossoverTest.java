package dev.tandem.cuda.gemm;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.Map;
import java.util.TreeMap;
import org.junit.jupiter.api.Test;

class SwigluCrossoverTest {
    /** Waves of the fused kernel: 112 tile pairs per 256 rows, 66 per wave. */
    private static int waves(int rows) {
        return ((rows + 255) / 256 * 112 + 65) / 66;
    }

    /** As on an H200: one wave takes 52 us; separate kernels take 0.38 us per row, and more per row for few rows. */
    private static SwigluCrossover measured() {
        TreeMap<Integer, Double> separate =
                new TreeMap<>(Map.of(256, 0.1, 512, 0.18, 1024, 0.388, 2048, 0.766, 8192, 2.99));
        TreeMap<Integer, Double> fused = new TreeMap<>();
        separate.keySet().forEach(rows -> fused.put(rows, waves(rows) * 0.0522));
        return SwigluCrossover.of(separate, fused, SwigluCrossoverTest::waves);
    }

    @Test
    void fusingPaysForTheRowCountsMeasuredFaster() {
        SwigluCrossover crossover = measured();
        assertThat(crossover.pays(512)).isFalse();
        assertThat(crossover.pays(1024)).isTrue();
        assertThat(crossover.pays(8192)).isTrue();
        assertThat(crossover.text()).isEqualTo("1024, 2048, 8192 of [256, 512, 1024, 2048, 8192]");
    }

    @Test
    void fusingDoesNotPayIfTheLastTilePairIsNearlyEmpty() {
        SwigluCrossover crossover = measured();
        assertThat(crossover.pays(1280)).isTrue();
        assertThat(crossover.pays(1290)).isFalse();
        assertThat(crossover.pays(8200)).isTrue();
    }

    @Test
    void fusingNeverPaysBelowTheSmallestMeasuredRowCount() {
        assertThat(measured().pays(255)).isFalse();
    }

    @Test
    void timesAreExtrapolatedLinearlyBeyondTheLastMeasuredRowCount() {
        assertThat(measured().pays(20_480)).isTrue();
    }

    @Test
    void fusingNeverPaysIfSeparateKernelsAreAlwaysFaster() {
        TreeMap<Integer, Double> separate = new TreeMap<>(Map.of(256, 0.1));
        SwigluCrossover crossover =
                SwigluCrossover.of(separate, new TreeMap<>(Map.of(256, 0.2)), SwigluCrossoverTest::waves);
        assertThat(crossover.pays(100_000)).isFalse();
        assertThat(crossover.text()).isEqualTo("none of [256]");
    }
}
