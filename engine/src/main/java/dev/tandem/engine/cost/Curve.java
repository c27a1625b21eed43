package dev.tandem.engine.cost;

import java.util.Arrays;

/**
 * Seconds as a function of size, through measured points.
 *
 * <p>Between points it interpolates. Beyond the last point it continues the last segment. Below the first point it
 * returns the first point's time. Size 0 takes no time.
 */
public final class Curve {
    private final double[] sizes;
    private final double[] seconds;

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
        int last = sizes.length - 1;
        if (size <= sizes[0] || last == 0) {
            return size <= sizes[0] ? seconds[0] : seconds[0] * size / sizes[0];
        }
        int right = Math.min(last, firstNotBelow(size));
        int left = right - 1;
        double slope = (seconds[right] - seconds[left]) / (sizes[right] - sizes[left]);
        return seconds[left] + slope * (size - sizes[left]);
    }

    /** Index of the first size that is not below {@code size}. */
    private int firstNotBelow(double size) {
        int found = Arrays.binarySearch(sizes, size);
        return found >= 0 ? found : -found - 1;
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
