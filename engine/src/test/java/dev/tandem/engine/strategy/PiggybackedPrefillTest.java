package dev.tandem.engine.strategy;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.Map;
import org.junit.jupiter.api.Test;

class PiggybackedPrefillTest {
    @Test
    void tokensArePiggybackedWhileGemmsWaitForTheWeights() {
        // the time is flat up to 64 rows; then each row costs as much as in a long step
        assertThat(PiggybackedPrefill.of(rows -> Math.max(64, rows), 1000)).isEqualTo(64);
        assertThat(PiggybackedPrefill.of(rows -> Math.max(40, rows), 1000)).isEqualTo(48);
        assertThat(PiggybackedPrefill.of(rows -> Math.max(1000, rows), 1000)).isEqualTo(256);
    }

    /** Microseconds of a layer, measured on an H200. */
    @Test
    void theCostOfTheLastRowsDecides() {
        Map<Integer, Double> layer = Map.of(
                8, 110.2, 16, 113.4, 32, 115.5, 48, 118.9, 64, 120.7, 96, 127.7, 128, 136.4, 160, 146.4, 192, 156.5,
                256, 199.2);
        assertThat(PiggybackedPrefill.of(layer::get, 1000)).isEqualTo(192);
    }

    /** On 16 multiprocessors 16 rows cost much more than 8, and 64 hardly more than 16. */
    @Test
    void oneExpensiveStepUpDoesNotEndTheSearch() {
        Map<Integer, Double> layer = Map.of(
                8, 213.5, 16, 241.7, 32, 294.9, 48, 301.3, 64, 304.2, 96, 422.0, 128, 539.7, 160, 677.0, 192, 814.1,
                256, 1052.0);
        assertThat(PiggybackedPrefill.of(layer::get, 1000)).isEqualTo(64);
    }

    @Test
    void noPrefillIsPiggybackedWhereEachTokenCostsTheSame() {
        assertThat(PiggybackedPrefill.of(rows -> rows, 1000)).isEqualTo(8);
    }

    @Test
    void theCapacityIsTheLimit() {
        assertThat(PiggybackedPrefill.of(rows -> Math.max(1000, rows), 100)).isEqualTo(96);
        assertThat(PiggybackedPrefill.of(rows -> 1, 8)).isEqualTo(8);
    }
}
