package dev.tandem.engine.strategy;

import java.util.function.IntToDoubleFunction;

/**
 * Finds the number of rows up to which prompt tokens in a decode step cost far less than in a step of their own. The
 * time of a GEMM with few rows is the time to read the weights and hardly depends on the number of rows.
 */
public final class PiggybackedPrefill {
    /** Result where no larger number of rows pays. */
    private static final int MIN_ROWS = 8;
    /**
     * Max cost of a piggybacked row, as a fraction of the cost of a row in a long prompt. On an H200 the last of 192
     * rows cost 0.52, the last of 256 rows 0.64 or more.
     */
    private static final double MAX_COST = 0.58;

    /** Numbers of rows that are tried. */
    private static final int[] CANDIDATES = {16, 32, 48, 64, 96, 128, 160, 192, 256};

    private PiggybackedPrefill() {}

    /**
     * Returns the max number of rows of a step with piggybacked prompts; {@link #MIN_ROWS} where piggybacking does not
     * pay. The cost of the last rows decides, not the mean: where 192 rows are cheap, 64 more at full cost belong in a
     * step of their own.
     *
     * @param seconds time of the GEMMs of a step by number of rows, in any unit
     * @param capacity max rows for which {@code seconds} is defined, at least {@link #MIN_ROWS}
     */
    public static int of(IntToDoubleFunction seconds, int capacity) {
        int longest = Math.min(capacity, CANDIDATES[CANDIDATES.length - 1]);
        double longestSeconds = seconds.applyAsDouble(longest);
        double secondsPerRow = longestSeconds / longest;
        int best = MIN_ROWS;
        double bestSeconds = seconds.applyAsDouble(MIN_ROWS);
        for (int rows : CANDIDATES) {
            if (rows > capacity) {
                break;
            }
            double candidateSeconds = rows == longest ? longestSeconds : seconds.applyAsDouble(rows);
            if ((candidateSeconds - bestSeconds) / (rows - best) <= MAX_COST * secondsPerRow) {
                best = rows;
                bestSeconds = candidateSeconds;
            }
        }
        return best;
    }
}
