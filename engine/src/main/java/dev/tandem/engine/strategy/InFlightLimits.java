package dev.tandem.engine.strategy;

import dev.tandem.engine.executor.ExecutorLimits;

/**
 * How many in-flight tokens an executor takes.
 *
 * @param slotsPerLayer max that a layer picks up in a step, and max that enter in a step
 * @param max that may be in flight at a time
 * @param finish whether a step can take in-flight tokens through all layers that they have left
 */
public record InFlightLimits(int slotsPerLayer, int max, boolean finish) {
    /** As in the papers. */
    public static final InFlightLimits UNLIMITED = new InFlightLimits(Integer.MAX_VALUE, Integer.MAX_VALUE, true);

    /** Those of an executor. */
    public static InFlightLimits of(ExecutorLimits limits) {
        return new InFlightLimits(limits.slotsPerLayer(), limits.maxInFlight(), limits.completesWithinStep());
    }
}
