package dev.tandem.bench.report;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/**
 * One axis of a plot.
 *
 * @param label quantity and unit
 * @param logarithmic whether equal distances are equal ratios; values of 0 or less are then left out
 * @param max highest value that is shown, as a saturated latency would hide all others; infinite for no limit
 */
public record Axis(String label, boolean logarithmic, double max) {
    private static final int TICKS = 6;

    /** A linear axis from 0, or from the lowest value below it. */
    public static Axis linear(String label) {
        return new Axis(label, false, Double.POSITIVE_INFINITY);
    }

    /** A logarithmic axis. */
    public static Axis log(String label) {
        return new Axis(label, true, Double.POSITIVE_INFINITY);
    }

    /** The same axis with an upper limit. */
    public Axis upTo(double limit) {
        return new Axis(label, logarithmic, limit);
    }

    /** Whether a value has a place on this axis. */
    boolean shows(double value) {
        return Double.isFinite(value) && (!logarithmic || value > 0);
    }

    /** The part of an axis that a plot shows. */
    record Range(boolean logarithmic, double low, double high, List<Double> ticks) {
        /** Where a value lies, from 0 at the low end to 1 at the high end; clipped to that. */
        double position(double value) {
            double at = logarithmic ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
            return Math.clamp(at, 0, 1);
        }
    }

    /** The range that has all values up to the limit, with round ends. */
    Range range(List<Double> values) {
        List<Double> shown = values.stream().filter(this::shows).toList();
        double low = shown.stream().mapToDouble(v -> v).min().orElse(logarithmic ? 1 : 0);
        double high = Math.min(max, shown.stream().mapToDouble(v -> v).max().orElse(1));
        return logarithmic ? logRange(low, Math.max(low, high)) : linearRange(Math.min(0, low), high);
    }

    private static Range linearRange(double low, double high) {
        double span = high > low ? high - low : 1;
        double rough = span / TICKS;
        double power = Math.pow(10, Math.floor(Math.log10(rough)));
        double step = power * (rough / power <= 1 ? 1 : rough / power <= 2 ? 2 : rough / power <= 5 ? 5 : 10);
        long first = (long) Math.floor(low / step + 1e-9);
        long last = (long) Math.ceil((low + span) / step - 1e-9);
        List<Double> ticks = new ArrayList<>();
        for (long i = first; i <= last; i++) {
            ticks.add(i * step);
        }
        return new Range(false, first * step, last * step, ticks);
    }

    /** Ticks at 1, 2 and 5 times powers of ten, or at the powers alone over more than three decades. */
    private static Range logRange(double low, double high) {
        int first = (int) Math.floor(Math.log10(low));
        int last = (int) Math.ceil(Math.log10(high) + 1e-9);
        int[] digits = last - first > 3 ? new int[] {1} : new int[] {1, 2, 5};
        List<Double> all = new ArrayList<>();
        for (int power = first; power <= last; power++) {
            for (int digit : digits) {
                all.add(digit * Math.pow(10, power));
            }
        }
        double start = all.stream()
                .filter(v -> v <= low * (1 + 1e-9))
                .reduce((a, b) -> b)
                .orElse(all.getFirst());
        double end = all.stream()
                .filter(v -> v >= high * (1 - 1e-9) && v > start)
                .findFirst()
                .orElse(all.getLast());
        return new Range(
                true,
                start,
                end,
                all.stream().filter(v -> v >= start && v <= end).toList());
    }

    /** A tick's text: no more digits than it needs. */
    static String text(double value) {
        double size = Math.abs(value);
        if (size >= 1000) {
            return String.format(Locale.ROOT, "%,.0f", value);
        }
        String text = String.format(Locale.ROOT, size >= 1 || size == 0 ? "%.2f" : "%.4f", value);
        return text.contains(".") ? text.replaceFirst("\\.?0+$", "") : text;
    }
}
