package dev.tandem.bench.load;

import dev.tandem.engine.config.ConfigurationException;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A bound on one figure of a result.
 *
 * @param key of {@link LoadResult#toMap()}
 * @param atLeast whether the bound is a minimum; otherwise it is a maximum
 */
public record Requirement(String key, boolean atLeast, double bound) {
    private static final Pattern FORM = Pattern.compile("([a-z0-9_.]+)(>=|<=)([0-9]+(?:\\.[0-9]+)?)");
    /** The shorter name of {@code goodput_fraction}. */
    private static final String GOODPUT = "goodput";

    /**
     * Reads {@code goodput>=0.9}, or another key of a result with its bound, as {@code p99_ttft_ms<=500}.
     *
     * @param keys what results have
     * @throws ConfigurationException that says what it must look like
     */
    public static Requirement parse(String text, Set<String> keys) {
        Matcher form = FORM.matcher(text);
        String key = form.matches() ? form.group(1) : "";
        key = key.equals(GOODPUT) ? "goodput_fraction" : key;
        if (!keys.contains(key)) {
            throw new ConfigurationException("--find-rate '" + text
                    + "' must be goodput>=FRACTION, or a number of the result with its bound, as p99_ttft_ms<=500");
        }
        return new Requirement(key, form.group(2).equals(">="), Double.parseDouble(form.group(3)));
    }

    /** Whether a result's map keeps the bound and every measured request ended without an error. */
    public boolean holds(Map<String, Object> result) {
        double value = number(result, key);
        return number(result, "completed") == number(result, "arrived") && (atLeast ? value >= bound : value <= bound);
    }

    private static double number(Map<String, Object> result, String key) {
        if (result.get(key) instanceof Number number) {
            return number.doubleValue();
        }
        throw new IllegalArgumentException("the result has no number " + key);
    }

    @Override
    public String toString() {
        return key + (atLeast ? ">=" : "<=") + bound;
    }
}
