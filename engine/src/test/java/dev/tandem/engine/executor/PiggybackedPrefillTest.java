package dev.tandem.engine.executor;

import static java.util.Map.entry;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import java.util.Arrays;
import java.util.Map;
import java.util.function.IntToDoubleFunction;
import org.junit.jupiter.api.Test;

class PiggybackedPrefillTest {
    /** Microseconds of a layer with 16 multiprocessors, measured. */
    private static final Map<Integer, Double> SMALL = Map.ofEntries(
            entry(8, 204.4),
            entry(16, 228.0),
            entry(32, 276.1),
            entry(48, 279.9),
            entry(64, 283.0),
            entry(96, 494.8),
            entry(128, 510.9),
            entry(160, 695.2),
            entry(192, 775.2),
            entry(256, 1000.0));

    private static final int[] MEASURED = {8, 16, 32, 48, 64, 96, 128, 160, 192, 256};

    private static int maxRows(IntToDoubleFunction gemms, int capacity) {
        return PiggybackedPrefill.of(gemms, rows -> 0, capacity).maxRows();
    }

    /** @param layer time of each measured number of rows */
    private static int maxRows(double... layer) {
        return maxRows(rows -> layer[Arrays.binarySearch(MEASURED, rows)], 256);
    }

    @Test
    void tokensArePiggybackedWhileGemmsWaitForTheWeights() {
        // the time is flat up to 64 rows; then each row costs as much as in a long step
        assertThat(maxRows(rows -> Math.max(64, rows), 1000)).isEqualTo(64);
        assertThat(maxRows(rows -> Math.max(40, rows), 1000)).isEqualTo(48);
        assertThat(maxRows(rows -> Math.max(1000, rows), 1000)).isEqualTo(256);
    }

    /** Microseconds of a layer, measured on an H200. */
    @Test
    void theCostOfTheLastRowsDecides() {
        assertThat(maxRows(110.2, 113.4, 115.5, 118.9, 120.7, 127.7, 136.4, 146.4, 156.5, 199.2))
                .isEqualTo(192);
    }

    /** On 16 multiprocessors 16 rows cost much more than 8, and 64 hardly more than 16. */
    @Test
    void oneExpensiveStepUpDoesNotEndTheSearch() {
        assertThat(maxRows(213.5, 241.7, 294.9, 301.3, 304.2, 422.0, 539.7, 677.0, 814.1, 1052.0))
                .isEqualTo(64);
    }

    @Test
    void noPrefillIsPiggybackedWhereEachTokenCostsTheSame() {
        assertThat(maxRows(rows -> rows, 1000)).isEqualTo(8);
    }

    @Test
    void theCapacityIsTheLimit() {
        assertThat(maxRows(rows -> Math.max(1000, rows), 100)).isEqualTo(96);
        assertThat(maxRows(rows -> 1, 8)).isEqualTo(8);
    }

    /** Requests of 1,000 prompt tokens and 400 of output: 20 sequences need 50 prompt tokens per step, 44 fit. */
    @Test
    void stepsStayShortWhereMoreRowsCostMuch() {
        PiggybackedPrefill small = PiggybackedPrefill.of(SMALL::get, rows -> 0, 1000);
        assertThat(small.rows(20, 2.5)).isEqualTo(64);
    }

    /** With 10 prompt tokens per output, 64 rows would keep 6 of the 20 sequences at work, and 128 rows keep 12. */
    @Test
    void stepsAreLongWherePromptsAreMostOfTheWork() {
        PiggybackedPrefill small = PiggybackedPrefill.of(SMALL::get, rows -> 0, 1000);
        assertThat(small.rows(20, 10)).isEqualTo(128);
    }

    /** Each step with prompt tokens pays for their attention, however few they are. */
    @Test
    void attentionOfPromptsMakesStepsLonger() {
        assertThat(PiggybackedPrefill.of(SMALL::get, rows -> 100, 1000).rows(20, 2.5))
                .isEqualTo(64);
        assertThat(PiggybackedPrefill.of(SMALL::get, rows -> 200, 1000).rows(20, 2.5))
                .isEqualTo(256);
    }

    /** A pool with room for 600 must not stay at the few that decode beside 192 rows. */
    @Test
    void promptsAreComputedAtOnceWhereDecodesAreMoreThanTheRowsThatAreMeasured() {
        PiggybackedPrefill cheap = PiggybackedPrefill.of(rows -> Math.max(192, rows), rows -> 0, 1000);
        assertThat(cheap.rows(255, 0.5)).isLessThan(1000);
        assertThat(cheap.rows(256, 0.5)).isEqualTo(Integer.MAX_VALUE);
    }

    /** 70 rows on average take less time as steps of 64 and 128 rows than as steps of 70, which are padded to 96. */
    @Test
    void aMixOfStepsTakesLessTimeThanEqualSteps() {
        IntToDoubleFunction padded = rows -> {
            int measured = rows <= 8 ? 8 : rows <= 16 ? 16 : Math.min(256, (rows + 31) / 32 * 32);
            return SMALL.getOrDefault(measured, SMALL.get(256));
        };
        double expected = 283.0 + (510.9 - 283.0) * 6 / 64;
        assertThat(PiggybackedPrefill.mixed(padded, 20, 50)).isCloseTo(expected, within(1e-9));
        assertThat(PiggybackedPrefill.mixed(padded, 20, 0)).isEqualTo(276.1);
    }
}
