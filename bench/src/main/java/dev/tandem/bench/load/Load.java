package dev.tandem.bench.load;

import java.util.SplittableRandom;

/**
 * An open-loop load.
 *
 * @param arrivals when requests arrive
 * @param window which of them are measured
 * @param targets latencies that a request must keep to count as goodput
 * @param seed of the arrivals and of the time between turns
 * @param thinkSeconds mean time from the end of a turn to the arrival of the next one; the times are exponential
 */
public record Load(Arrivals arrivals, LoadWindow window, GoodputTargets targets, long seed, double thinkSeconds) {
    /** A load of conversations with one turn. */
    public Load(Arrivals arrivals, LoadWindow window, GoodputTargets targets, long seed) {
        this(arrivals, window, targets, seed, 0);
    }

    /** The same load at another mean rate. */
    public Load atRate(double perSecond) {
        return new Load(arrivals.atRate(perSecond), window, targets, seed, thinkSeconds);
    }

    /** Time in ns before a turn of a conversation; the same in every run with this seed. */
    public long thinkNanos(int conversation, int turn) {
        SplittableRandom random = new SplittableRandom(seed ^ (conversation * 0x9E3779B97F4A7C15L + turn));
        random.nextLong(); // the first number of near seeds is alike
        return (long) (-Math.log(1 - random.nextDouble()) * thinkSeconds * 1e9);
    }
}
