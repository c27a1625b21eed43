package dev.tandem.bench.load;

import java.util.NavigableMap;
import java.util.OptionalDouble;
import java.util.TreeMap;
import java.util.function.DoubleFunction;
import java.util.function.Predicate;

/**
 * Searches the highest request rate whose result meets a requirement, which must hold below some rate and fail above
 * it. Rates double or halve until one holds and one fails; then the interval between them is bisected.
 *
 * <p>Owned by: the thread that searches.
 *
 * @param <T> the result of a rate
 */
public final class RateSearch<T> {
    /** The search ends when the rates that hold and fail differ by less than this fraction. */
    private static final double TOLERANCE = 0.02;

    /** Doublings or halvings, a factor of a million, after which the requirement does not depend on the rate. */
    private static final int MAX_DOUBLINGS = 20;

    private final Predicate<T> requirement;
    private final DoubleFunction<T> measure;
    private final NavigableMap<Double, T> measured = new TreeMap<>();

    /** @param measure runs the load at a rate, in requests per second */
    public RateSearch(Predicate<T> requirement, DoubleFunction<T> measure) {
        this.requirement = requirement;
        this.measure = measure;
    }

    /** All results by rate, those that fail the requirement included. */
    public NavigableMap<Double, T> measured() {
        return measured;
    }

    /**
     * The highest rate found; empty when the requirement holds at every rate tried, or at none.
     *
     * @param start the first rate to try
     */
    public OptionalDouble highest(double start) {
        boolean holdsAtStart = holds(start);
        double factor = holdsAtStart ? 2 : 0.5;
        double rate = start;
        for (int i = 0; i < MAX_DOUBLINGS; i++) {
            double next = rate * factor;
            if (holds(next) != holdsAtStart) {
                return OptionalDouble.of(bisect(Math.min(rate, next), Math.max(rate, next)));
            }
            rate = next;
        }
        return OptionalDouble.empty();
    }

    private double bisect(double lower, double upper) {
        double holds = lower;
        double fails = upper;
        while (fails > holds * (1 + TOLERANCE)) {
            double middle = (holds + fails) / 2;
            if (holds(middle)) {
                holds = middle;
            } else {
                fails = middle;
            }
        }
        return holds;
    }

    private boolean holds(double rate) {
        return requirement.test(measured.computeIfAbsent(rate, measure::apply));
    }
}
