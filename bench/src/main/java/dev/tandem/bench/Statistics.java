package dev.tandem.bench;

import java.util.Arrays;
import java.util.Map;

/** Mean and percentiles under vLLM's names. */
public final class Statistics {
    private Statistics() {}

    /** Adds {@code mean_X_ms}, {@code median_X_ms}, {@code std_X_ms}, {@code p90_X_ms} and {@code p99_X_ms}. */
    public static void put(Map<String, Object> result, String name, double[] values) {
        double[] sorted = values.clone();
        Arrays.sort(sorted);
        double mean = Arrays.stream(sorted).average().orElse(0);
        double variance = Arrays.stream(sorted)
                .map(v -> (v - mean) * (v - mean))
                .average()
                .orElse(0);
        result.put("mean_" + name + "_ms", rounded(mean));
        result.put("median_" + name + "_ms", rounded(percentile(sorted, 50)));
        result.put("std_" + name + "_ms", rounded(Math.sqrt(variance)));
        result.put("p90_" + name + "_ms", rounded(percentile(sorted, 90)));
        result.put("p99_" + name + "_ms", rounded(percentile(sorted, 99)));
    }

    /** A percentile of sorted values, by linear interpolation; 0 without values. */
    public static double percentile(double[] sorted, double percent) {
        if (sorted.length == 0) {
            return 0;
        }
        double at = percent / 100 * (sorted.length - 1);
        int below = (int) at;
        int above = Math.min(below + 1, sorted.length - 1);
        return sorted[below] + (at - below) * (sorted[above] - sorted[below]);
    }

    /** The median of values in any order; 0 without values. */
    public static double median(double[] values) {
        double[] sorted = values.clone();
        Arrays.sort(sorted);
        return percentile(sorted, 50);
    }

    /** Rounds to three decimals; more would suggest a precision that measurements do not have. */
    public static double rounded(double value) {
        return Math.round(value * 1000) / 1000.0;
    }
}
