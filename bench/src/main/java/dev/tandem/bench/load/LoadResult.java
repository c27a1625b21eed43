package dev.tandem.bench.load;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.EnumMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * The metrics of a load. Counts and latencies are of the measured requests, by arrival. Throughputs are what the server
 * delivered during the window, by time: above saturation less than what arrived.
 *
 * @param seconds length of the window
 * @param counts what became of the measured requests
 * @param rates per second of the window
 * @param latencies one distribution per metric
 * @param errors number of failed requests by kind
 * @param sendDelay how much later than intended requests were sent
 */
public record LoadResult(
        double seconds,
        Counts counts,
        Rates rates,
        Map<Metric, Latencies> latencies,
        Map<String, Integer> errors,
        Latencies sendDelay) {
    /**
     * What became of the measured requests.
     *
     * @param arrived in the window
     * @param completed with a whole answer
     * @param failed with an error
     * @param unfinished when the run stopped
     * @param inputTokens of completed requests
     * @param outputTokens of completed requests
     * @param maxConcurrent requests that were sent and not ended at a time, all requests counted
     */
    public record Counts(
            int arrived,
            int completed,
            int failed,
            int unfinished,
            long inputTokens,
            long outputTokens,
            int maxConcurrent) {}

    /**
     * Rates over the window.
     *
     * @param offered requests that arrived, per second
     * @param requests requests that ended in the window, per second
     * @param goodput requests that arrived in the window and kept their targets, per second
     * @param outputTokens tokens that clients received in the window, per second
     * @param totalTokens the same, with the prompts of requests that ended in the window
     * @param maxOutputTokens tokens of the best second
     */
    public record Rates(
            double offered,
            double requests,
            double goodput,
            double outputTokens,
            double totalTokens,
            double maxOutputTokens) {}

    /** The percentiles that results have unless an option names others. */
    public static final List<Double> PERCENTILES = List.of(90.0, 99.0);

    /**
     * Evaluates the requests of a load.
     *
     * @param requests all requests that arrived, measured or not
     */
    public static LoadResult of(Load load, Collection<RequestTimes> requests) {
        List<RequestTimes> measured = requests.stream()
                .filter(request -> load.window().measures(request.arrival()))
                .toList();
        Span span = Span.of(load.window(), measured);
        Map<Metric, Latencies> latencies = new EnumMap<>(Metric.class);
        for (Metric metric : Metric.values()) {
            latencies.put(metric, distribution(metric, measured));
        }
        Map<String, Integer> errors = new TreeMap<>();
        Latencies sendDelay = new Latencies();
        int good = 0;
        for (RequestTimes request : measured) {
            sendDelay.add(request.sendDelay());
            if (request.outcome() instanceof RequestTimes.Outcome.Failed failed) {
                errors.merge(failed.kind(), 1, Integer::sum);
            }
            good += load.targets().met(request) ? 1 : 0;
        }
        Counts counts = counts(requests, measured);
        return new LoadResult(
                span.seconds(), counts, rates(span, requests, measured, good), latencies, errors, sendDelay);
    }

    /** The time over which rates are taken. */
    private record Span(long start, long end) {
        static Span of(LoadWindow window, List<RequestTimes> measured) {
            return switch (window) {
                case LoadWindow.Timed timed ->
                    new Span(
                            timed.warmUp().toNanos(),
                            timed.warmUp().plus(timed.duration()).toNanos());
                case LoadWindow.Requests all -> {
                    long start = measured.stream()
                            .mapToLong(RequestTimes::arrival)
                            .min()
                            .orElse(0);
                    long end = measured.stream()
                            .mapToLong(RequestTimes::endedAt)
                            .max()
                            .orElse(start);
                    yield new Span(start, Math.max(start + 1, end + 1)); // the last end is within
                }
            };
        }

        double seconds() {
            return (end - start) / 1e9;
        }

        boolean contains(long time) {
            return time >= start && time < end;
        }
    }

    private static Latencies distribution(Metric metric, List<RequestTimes> measured) {
        Latencies latencies = new Latencies();
        for (RequestTimes request : measured) {
            request.nanos(metric).ifPresent(latencies::add);
            if (metric == Metric.ITL) {
                long[] pieces = request.pieces();
                for (int i = 1; i < pieces.length; i++) {
                    latencies.add(pieces[i] - pieces[i - 1]);
                }
            }
        }
        return latencies;
    }

    private static Counts counts(Collection<RequestTimes> all, List<RequestTimes> measured) {
        int completed = 0;
        int failed = 0;
        long input = 0;
        long output = 0;
        for (RequestTimes request : measured) {
            switch (request.outcome()) {
                case RequestTimes.Outcome.Ended ended -> {
                    completed++;
                    input += request.promptTokens();
                    output += request.outputTokens();
                }
                case RequestTimes.Outcome.Failed reason -> failed++;
                case RequestTimes.Outcome.Unfinished unfinished -> {}
            }
        }
        int unfinished = measured.size() - completed - failed;
        return new Counts(measured.size(), completed, failed, unfinished, input, output, maxConcurrent(all));
    }

    /** Ends count before starts of the same time. */
    private static int maxConcurrent(Collection<RequestTimes> all) {
        List<long[]> changes = new ArrayList<>();
        for (RequestTimes request : all) {
            changes.add(new long[] {request.sentAt(), 1});
            if (!(request.outcome() instanceof RequestTimes.Outcome.Unfinished)) {
                changes.add(new long[] {request.endedAt(), -1});
            }
        }
        changes.sort((a, b) -> a[0] == b[0] ? Long.compare(a[1], b[1]) : Long.compare(a[0], b[0]));
        long now = 0;
        long max = 0;
        for (long[] change : changes) {
            now += change[1];
            max = Math.max(max, now);
        }
        return (int) max;
    }

    private static Rates rates(Span span, Collection<RequestTimes> all, List<RequestTimes> measured, int good) {
        double[] perSecond = new double[(int) Math.ceil(span.seconds())];
        int ended = 0;
        long prompts = 0;
        for (RequestTimes request : all) {
            if (request.outcome() instanceof RequestTimes.Outcome.Ended && span.contains(request.endedAt())) {
                ended++;
                prompts += request.promptTokens();
            }
            long[] pieces = request.pieces();
            double tokens = (double) request.outputTokens() / Math.max(1, pieces.length);
            for (long time : pieces) {
                if (span.contains(time)) {
                    perSecond[(int) ((time - span.start()) / 1_000_000_000)] += tokens;
                }
            }
        }
        double seconds = span.seconds();
        double output = Arrays.stream(perSecond).sum();
        return new Rates(
                measured.size() / seconds,
                ended / seconds,
                good / seconds,
                output / seconds,
                (output + prompts) / seconds,
                Arrays.stream(perSecond).max().orElse(0));
    }

    /** A latency's distribution. */
    public Latencies latency(Metric metric) {
        return latencies.getOrDefault(metric, new Latencies());
    }

    /** Fraction of the measured requests that kept their targets. */
    public double goodputFraction() {
        return counts.arrived() == 0 ? 0 : rates.goodput() * seconds / counts.arrived();
    }

    /** The result under the keys of vLLM's benchmark, with all metrics and {@link #PERCENTILES}. */
    public Map<String, Object> toMap() {
        return toMap(List.of(Metric.values()), PERCENTILES);
    }

    /** The result under the keys of vLLM's benchmark, with these metrics and percentiles. */
    public Map<String, Object> toMap(Collection<Metric> metrics, Collection<Double> percentiles) {
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("duration", rounded(seconds));
        result.put("arrived", counts.arrived());
        result.put("completed", counts.completed());
        result.put("failed", counts.failed());
        result.put("unfinished", counts.unfinished());
        result.put("total_input_tokens", counts.inputTokens());
        result.put("total_output_tokens", counts.outputTokens());
        result.put("offered_request_rate", rounded(rates.offered()));
        result.put("request_throughput", rounded(rates.requests()));
        result.put("request_goodput", rounded(rates.goodput()));
        result.put("goodput_fraction", rounded(goodputFraction()));
        result.put("output_throughput", rounded(rates.outputTokens()));
        result.put("total_token_throughput", rounded(rates.totalTokens()));
        result.put("max_output_tokens_per_s", rounded(rates.maxOutputTokens()));
        result.put("max_concurrent_requests", counts.maxConcurrent());
        for (Metric metric : metrics) {
            put(result, metric, percentiles);
        }
        result.put("p99_send_delay_ms", rounded(sendDelay.percentile(99)));
        result.put("errors", errors);
        return result;
    }

    private void put(Map<String, Object> result, Metric metric, Collection<Double> percentiles) {
        Latencies distribution = latency(metric);
        String key = metric.key();
        result.put("mean_" + key + "_ms", rounded(distribution.mean()));
        result.put("median_" + key + "_ms", rounded(distribution.percentile(50)));
        result.put("std_" + key + "_ms", rounded(distribution.standardDeviation()));
        for (double percent : percentiles) {
            String name = percent == Math.rint(percent) ? String.valueOf((int) percent) : String.valueOf(percent);
            result.put("p" + name + "_" + key + "_ms", rounded(distribution.percentile(percent)));
        }
    }

    private static double rounded(double value) {
        return Math.round(value * 1000) / 1000.0;
    }
}
