package dev.tandem.bench.reproduce;

import java.util.List;

/**
 * What curves say about a quantity: a number, or only bounds of it where a curve does not cross a latency limit.
 *
 * @param low lower bound; the number itself where it is known, and NaN where no point is in the quantity's range
 * @param high upper bound, infinity where there is none; equal to {@code low} where the number is known
 */
public record Estimate(double low, double high) {
    /** A known number, or NaN. */
    static Estimate of(double number) {
        return new Estimate(number, number);
    }

    /** Whether the number is known. */
    boolean known() {
        return Double.compare(low, high) == 0;
    }

    /** This number divided by another; both are positive. */
    Estimate over(Estimate divisor) {
        return new Estimate(low / divisor.high, high / divisor.low);
    }

    /** Whether the band contains the number, whatever it is within the bounds. */
    boolean within(Band band) {
        return band.contains(low) && band.contains(high);
    }

    /** The mean of at least one estimate. */
    static Estimate mean(List<Estimate> estimates) {
        return new Estimate(
                estimates.stream().mapToDouble(Estimate::low).average().orElseThrow(),
                estimates.stream().mapToDouble(Estimate::high).average().orElseThrow());
    }
}
