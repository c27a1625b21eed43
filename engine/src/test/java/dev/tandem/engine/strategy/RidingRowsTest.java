package dev.tandem.engine.strategy;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;

class RidingRowsTest {
    @Test
    void rowsRideWhileProductsWaitForTheWeights() {
        // flat up to 64 rows, then in proportion: a row of 64 costs little, one of 128 nearly all
        assertThat(RidingRows.of(rows -> Math.max(64, rows), 1000)).isEqualTo(128);
        assertThat(RidingRows.of(rows -> Math.max(40, rows), 1000)).isEqualTo(64);
        assertThat(RidingRows.of(rows -> Math.max(1000, rows), 1000)).isEqualTo(256);
    }

    @Test
    void nobodyRidesWhereEachRowCostsTheSame() {
        assertThat(RidingRows.of(rows -> rows, 1000)).isEqualTo(8);
    }

    @Test
    void noMoreThanTheExecutorTakes() {
        assertThat(RidingRows.of(rows -> Math.max(1000, rows), 100)).isEqualTo(64);
        assertThat(RidingRows.of(rows -> 1, 8)).isEqualTo(8);
    }
}
