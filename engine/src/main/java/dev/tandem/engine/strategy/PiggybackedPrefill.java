package dev.tandem.engine.strategy;

import java.util.function.IntToDoubleFunction;

/**
 * How many rows a decode step may have so that the prompt tokens among them cost far less than in steps of their own. A
 * GEMM of few rows takes the time to read the weights, whatever the number of rows.
 */
public final class PiggybackedPrefill {
    private static final int FEW = 8;
    /**
     * A piggybacked row costs at most this share of a long prompt's row: on an H200 the last of 192 cost 0.52, of 256
     * 0.64 and more.
     */
    private static final double MAX_COST = 0.58;

    private static final int[] STEPS = {16, 32, 48, 64, 96, 128, 160, 192, 256};

    private PiggybackedPrefill() {}

    /**
     * The max rows of a step with piggybacked prompts; {@link #FEW} where none pays. What counts is what the last rows
     * cost: where rows up to 192 are cheap, 64 more at the full price are better off in a step of their own.
     *
     * @param seconds of the GEMMs of a step of so many rows, in any unit
     * @param capacity max rows that {@code seconds} knows, at least {@link #FEW}
     */
    public static int of(IntToDoubleFunction seconds, int capacity) {
        int longest = Math.min(capacity, STEPS[STEPS.length - 1]);
        double whole = seconds.applyAsDouble(longest);
        double full = whole / longest;
        int piggybacked = FEW;
        double spent = seconds.applyAsDouble(FEW);
        for (int rows : STEPS) {
            if (rows > capacity) {
                break;
            }
            double more = rows == longest ? whole : seconds.applyAsDouble(rows);
            if ((more - spent) / (rows - piggybacked) <= MAX_COST * full) {
                piggybacked = rows;
                spent = more;
            }
        }
        return piggybacked;
    }
}
