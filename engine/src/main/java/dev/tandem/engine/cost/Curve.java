package dev.tandem.engine.cost;

import java.util.Arrays;

/**
 * Seconds as a function of size, through measured points.
 *
 * <p>Between points it interpolates. Beyond the last point it goes on with the mean slope from half of the last size
 * on: a segment alone may be noise, which counts many times far beyond it. Below the first point it returns the first
 * point's time. Size 0 takes no time.
 */
public final class Curve {
    /**
     * Bits of a size that its part leaves out: a part is a sixteenth of a power of two. Measured sizes lie denser where
     * they are small, and plans look up thousands of times: with equal parts of the range, the simulations of
     * {@code StrategiesPayTest} spent 11 % of their time here.
     */
    private static final int WITHIN_PART = Double.PRECISION - 1 - 4;

    private final double[] sizes;
    private final double[] seconds;
    /** By part, from that of the first size: index of the first size that is not in a part before it. */
    private final int[] starts;

    /** Seconds per size beyond the last point; a single point's times grow in proportion. */
    private final double slopeBeyond;

    /**
     * Creates a curve through the points.
     *
     * @param name names the curve in errors
     * @param sizes ascending, positive
     * @param seconds finite and positive; a value below an earlier one counts as noise
     * @throws ProfileException that names the invalid point
     */
    public Curve(String name, double[] sizes, double[] seconds) {
        if (sizes.length == 0 || sizes.length != seconds.length) {
            throw new ProfileException(name + " has " + sizes.length + " sizes and " + seconds.length
                    + " times; it needs at least one of each. Measure again with tandem profile");
        }
        for (int i = 0; i < sizes.length; i++) {
            if (!(sizes[i] > 0) || sizes[i] == Double.POSITIVE_INFINITY || i > 0 && sizes[i] <= sizes[i - 1]) {
                throw new ProfileException(name + ": size " + sizes[i] + " at point " + i
                        + "; sizes must be positive and ascending. Measure again with tandem profile");
            }
            if (!(seconds[i] > 0) || seconds[i] == Double.POSITIVE_INFINITY) {
                throw new ProfileException(name + " at " + sizes[i] + " takes " + seconds[i]
                        + " s; times must be positive and finite. Measure again with tandem profile");
            }
        }
        this.sizes = sizes.clone();
        this.seconds = withoutFalls(seconds);
        this.starts = starts(this.sizes);
        int last = sizes.length - 1;
        double from = last == 0 ? 0 : Math.max(sizes[0], sizes[last] / 2);
        this.slopeBeyond = (this.seconds[last] - at(from)) / (sizes[last] - from);
    }

    /** Raises each value to the max of the values before it: more work never takes less time, so a fall is noise. */
    private static double[] withoutFalls(double[] values) {
        double[] raised = values.clone();
        for (int i = 1; i < raised.length; i++) {
            raised[i] = Math.max(raised[i], raised[i - 1]);
        }
        return raised;
    }

    /** Seconds that work of this size takes. */
    public double at(double size) {
        if (size <= 0) {
            return 0;
        }
        if (size <= sizes[0]) {
            return seconds[0];
        }
        int last = sizes.length - 1;
        if (size > sizes[last]) {
            return seconds[last] + slopeBeyond * (size - sizes[last]);
        }
        int right = firstNotBelow(size);
        int left = right - 1;
        double slope = (seconds[right] - seconds[left]) / (sizes[right] - sizes[left]);
        return seconds[left] + slope * (size - sizes[left]);
    }

    /** Index of the first size that is not below {@code size}, which lies between the first and the last. */
    private int firstNotBelow(double size) {
        int index = starts[part(size) - part(sizes[0])];
        while (sizes[index] < size) {
            index++;
        }
        return index;
    }

    private static int[] starts(double[] sizes) {
        int first = part(sizes[0]);
        int[] starts = new int[part(sizes[sizes.length - 1]) - first + 1];
        int index = 0;
        for (int part = 0; part < starts.length; part++) {
            while (part(sizes[index]) - first < part) {
                index++;
            }
            starts[part] = index;
        }
        return starts;
    }

    /** Sizes of a part are larger than those of the parts before it. */
    private static int part(double size) {
        return (int) (Double.doubleToRawLongBits(size) >>> WITHIN_PART);
    }

    /** True when {@code size} does not exceed the last measured point. */
    public boolean covers(double size) {
        return size <= sizes[sizes.length - 1];
    }

    /** This curve with all times multiplied by a positive factor. */
    Curve scaled(double factor) {
        return new Curve(
                "scaled curve",
                sizes,
                Arrays.stream(seconds).map(value -> value * factor).toArray());
    }

    double[] sizes() {
        return sizes;
    }

    double[] seconds() {
        return seconds;
    }
}
