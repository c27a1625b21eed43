package dev.tandem.bench.load;

/**
 * An open-loop load.
 *
 * @param arrivals when requests arrive
 * @param window which of them are measured
 * @param targets latencies that a request must keep to count as goodput
 * @param seed of the arrivals
 */
public record Load(Arrivals arrivals, LoadWindow window, GoodputTargets targets, long seed) {
    /** The same load at another mean rate. */
    public Load atRate(double perSecond) {
        return new Load(arrivals.atRate(perSecond), window, targets, seed);
    }
}
