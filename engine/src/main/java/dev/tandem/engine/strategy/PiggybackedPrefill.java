package dev.tandem.engine.strategy;

import java.util.function.IntToDoubleFunction;

/**
 * How many rows a decode step may have so that the prompt tokens among them ride for far less than they cost in steps
 * of their own: products of few rows take the time to read the weights, whatever the rows.
 */
public final class PiggybackedPrefill {
    private static final int FEW = 8;
    /**
     * A row that rides costs at most this share of one of a long prompt: on an H200 the last of 192 cost 0.52, of 256
     * 0.64 and more.
     */
    private static final double MAX_COST = 0.58;

    private static final int[] STEPS = {16, 32, 48, 64, 96, 128, 160, 192, 256};

    private PiggybackedPrefill() {}

    /**
     * The most rows at which those beyond a few still ride; {@link #FEW} where none does. What counts is what the last
     * ones cost: where rows up to 192 are cheap, 64 more at the full price are better off in a step of their own.
     *
     * @param seconds of the products of a step of so many rows, in any unit
     * @param capacity most rows that {@code seconds} knows, at least {@link #FEW}
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
