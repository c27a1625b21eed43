package dev.tandem.cuda.gemm;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.Map;
import java.util.TreeMap;
import org.junit.jupiter.api.Test;

class SwigluCrossoverTest {
    /** 112 pairs of tiles for every 256 rows, 66 at a time. */
    private static int turns(int rows) {
        return ((rows + 255) / 256 * 112 + 65) / 66;
    }

    /** As on an H200, where one turn takes 53 us and a row elsewhere 0.38, few rows more. */
    private static SwigluCrossover measured() {
        TreeMap<Integer, Double> apart =
                new TreeMap<>(Map.of(256, 0.1, 512, 0.18, 1024, 0.388, 2048, 0.766, 8192, 2.99));
        TreeMap<Integer, Double> together = new TreeMap<>();
        apart.keySet().forEach(rows -> together.put(rows, turns(rows) * 0.0522));
        return SwigluCrossover.of(apart, together, SwigluCrossoverTest::turns);
    }

    @Test
    void paysWhereItWasMeasuredToBeFaster() {
        SwigluCrossover many = measured();
        assertThat(many.pays(512)).isFalse();
        assertThat(many.pays(1024)).isTrue();
        assertThat(many.pays(8192)).isTrue();
        assertThat(many.text()).isEqualTo("1024, 2048, 8192 of [256, 512, 1024, 2048, 8192]");
    }

    @Test
    void aLastPairOfTilesThatIsNearlyEmptyDoesNotPay() {
        SwigluCrossover many = measured();
        assertThat(many.pays(1280)).isTrue();
        assertThat(many.pays(1290)).isFalse();
        assertThat(many.pays(8200)).isTrue();
    }

    @Test
    void fewerRowsThanWereMeasuredNeverPay() {
        assertThat(measured().pays(255)).isFalse();
    }

    @Test
    void beyondTheLastEachRowCostsTheSame() {
        assertThat(measured().pays(20_480)).isTrue();
    }

    @Test
    void paysNowhereWhereTheOtherIsFaster() {
        TreeMap<Integer, Double> apart = new TreeMap<>(Map.of(256, 0.1));
        SwigluCrossover many = SwigluCrossover.of(apart, new TreeMap<>(Map.of(256, 0.2)), SwigluCrossoverTest::turns);
        assertThat(many.pays(100_000)).isFalse();
        assertThat(many.text()).isEqualTo("none of [256]");
    }
}
