package dev.tandem.bench.load;

import org.HdrHistogram.Histogram;

/**
 * The distribution of one latency, to three significant digits; all values are in ms, and 0 without samples.
 *
 * <p>Owned by: the thread that adds samples; it is not changed once a result has it.
 */
public final class Latencies {
    private static final int DIGITS = 3;

    private final Histogram histogram = new Histogram(DIGITS);
    /** The mean needs no rounding to the histogram's digits. */
    private double sumNanos;

    void add(long nanos) {
        histogram.recordValue(Math.max(0, nanos));
        sumNanos += nanos;
    }

    /** Number of samples. */
    public long count() {
        return histogram.getTotalCount();
    }

    public double mean() {
        return count() == 0 ? 0 : sumNanos / count() / 1e6;
    }

    public double standardDeviation() {
        return count() == 0 ? 0 : histogram.getStdDeviation() / 1e6;
    }

    /** The value that {@code percent} of the samples do not exceed. */
    public double percentile(double percent) {
        return histogram.getValueAtPercentile(percent) / 1e6;
    }

    public double max() {
        return histogram.getMaxValue() / 1e6;
    }
}
