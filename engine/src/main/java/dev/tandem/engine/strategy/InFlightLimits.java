package dev.tandem.engine.strategy;

import dev.tandem.engine.executor.ExecutorLimits;

/**
 * The limits that an executor sets for in-flight tokens.
 *
 * @param slotsPerLayer max tokens that rejoin the batch at a layer in a step, and max tokens admitted in a step
 * @param max tokens in flight at a time
 * @param completesWithinStep whether a step can take in-flight tokens through all their remaining layers
 */
public record InFlightLimits(int slotsPerLayer, int max, boolean completesWithinStep) {
    /** No limits, as in the papers. */
    public static final InFlightLimits UNLIMITED = new InFlightLimits(Integer.MAX_VALUE, Integer.MAX_VALUE, true);

    /** The limits of an executor. */
    public static InFlightLimits of(ExecutorLimits limits) {
        return new InFlightLimits(limits.slotsPerLayer(), limits.maxInFlight(), limits.completesWithinStep());
    }
}
