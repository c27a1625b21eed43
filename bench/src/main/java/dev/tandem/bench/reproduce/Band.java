package dev.tandem.bench.reproduce;

/**
 * An interval of numbers, both ends included.
 *
 * @param low minus infinity where only an upper end counts
 * @param high infinity where only a lower end counts
 */
public record Band(double low, double high) {
    public Band {
        if (!(low <= high)) {
            throw new IllegalArgumentException("the band [" + low + ", " + high + "] is empty");
        }
    }

    /** Whether the band contains the value; no band contains NaN. */
    public boolean contains(double value) {
        return value >= low && value <= high;
    }

    @Override
    public String toString() {
        if (low == Double.NEGATIVE_INFINITY) {
            return "at most " + Numbers.text(high);
        }
        return high == Double.POSITIVE_INFINITY
                ? "at least " + Numbers.text(low)
                : Numbers.text(low) + " to " + Numbers.text(high);
    }
}
