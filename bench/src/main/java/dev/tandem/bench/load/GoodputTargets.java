package dev.tandem.bench.load;

import dev.tandem.engine.config.ConfigurationException;
import java.util.Collection;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

/**
 * Max latencies of a request that counts as goodput.
 *
 * @param millis max of each metric that has a target, in ms
 */
public record GoodputTargets(Map<Metric, Double> millis) {
    /** No targets: each request that ends counts. */
    public static final GoodputTargets NONE = new GoodputTargets(Map.of());

    private static final List<Metric> ALLOWED = List.of(Metric.TTFT, Metric.TPOT, Metric.E2EL);

    public GoodputTargets {
        millis = Map.copyOf(millis);
    }

    /**
     * Reads targets as {@code ttft:200}, {@code tpot:50} and {@code e2el:5000}, in ms.
     *
     * @throws ConfigurationException that names the target and what it must look like
     */
    public static GoodputTargets parse(Collection<String> targets) {
        Map<Metric, Double> millis = new EnumMap<>(Metric.class);
        for (String target : targets) {
            int colon = target.indexOf(':');
            double value = number(target.substring(colon + 1));
            if (colon < 0 || !(value > 0)) {
                throw new ConfigurationException(
                        "--goodput " + target + " must be a metric and milliseconds above 0, as ttft:200");
            }
            Metric metric = Metric.of(target.substring(0, colon));
            if (!ALLOWED.contains(metric)) {
                throw new ConfigurationException("--goodput " + target + ": use one of "
                        + ALLOWED.stream().map(Metric::key).collect(Collectors.joining(", ")));
            }
            millis.put(metric, value);
        }
        return new GoodputTargets(millis);
    }

    private static double number(String text) {
        try {
            return Double.parseDouble(text);
        } catch (NumberFormatException e) {
            return Double.NaN;
        }
    }

    /** Whether any latency has a target. */
    public boolean isEmpty() {
        return millis.isEmpty();
    }

    /** Whether a request has ended and kept every target; a latency that it does not have keeps its target. */
    public boolean met(RequestTimes request) {
        return request.outcome() instanceof RequestTimes.Outcome.Ended
                && millis.entrySet().stream()
                        .allMatch(target -> request.nanos(target.getKey()).orElse(0) <= target.getValue() * 1e6);
    }
}
