package dev.tandem.bench.report;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;

/** The report of a load at one or several rates: a table of each result, and plots over the rate. */
public final class LoadReport {
    private static final String RATE = "offered_request_rate";
    private static final String OUTPUT = "output_throughput";
    private static final String IDEAL = "ideal_output_tokens_per_second";

    private static final List<String> COLUMNS = List.of(
            RATE,
            "request_throughput",
            OUTPUT,
            "share_of_ideal",
            "goodput_fraction",
            "completed",
            "failed",
            "unfinished",
            "median_ttft_ms",
            "p99_ttft_ms",
            "median_tpot_ms",
            "p99_itl_ms",
            "mean_latency_per_token_ms");

    private final List<Map<String, Object>> results;

    /** @param results under the keys of {@code LoadResult.toMap()}, in any order */
    public LoadReport(List<Map<String, Object>> results) {
        this.results = results.stream()
                .sorted(Comparator.comparingDouble(result -> number(result, RATE)))
                .toList();
    }

    private static double number(Map<String, Object> result, String key) {
        return result.get(key) instanceof Number number ? number.doubleValue() : Double.NaN;
    }

    /** Plots over the offered rate, by file name; a latency that the results do not have has no plot. */
    public Map<String, Plot> plots() {
        Map<String, Plot> plots = new LinkedHashMap<>();
        plots.put(
                "throughput",
                plot(
                        "Requests that ended, and those within their targets",
                        "requests/s",
                        false,
                        List.of("request_throughput", "request_goodput")));
        plots.put("output", plot("Output tokens", "tokens/s", false, present(List.of(OUTPUT, IDEAL))));
        for (String metric : List.of("ttft", "tpot", "itl", "e2el", "latency_per_token")) {
            List<String> keys = latencyKeys(metric);
            if (!keys.isEmpty()) {
                plots.put(metric, plot(metric.replace('_', ' '), "ms", true, keys));
            }
        }
        return plots;
    }

    /** Those of the keys that any result has. */
    private List<String> present(List<String> keys) {
        return keys.stream()
                .filter(key -> results.stream().anyMatch(result -> result.containsKey(key)))
                .toList();
    }

    private List<String> latencyKeys(String metric) {
        TreeSet<String> keys = new TreeSet<>();
        for (Map<String, Object> result : results) {
            result.keySet().stream()
                    .filter(key -> key.endsWith("_" + metric + "_ms") && !key.startsWith("std_"))
                    .filter(key -> !key.substring(0, key.length() - metric.length() - 4)
                            .contains("_"))
                    .forEach(keys::add);
        }
        return List.copyOf(keys);
    }

    private Plot plot(String title, String unit, boolean logarithmic, List<String> keys) {
        List<Series> series = new ArrayList<>();
        for (String key : keys) {
            series.add(Series.of(
                    key.replaceFirst("_ms$", ""),
                    results.stream()
                            .map(result -> new Series.Point(number(result, RATE), number(result, key)))
                            .toList()));
        }
        Axis rate = Axis.linear("offered requests/s");
        return Plot.of(title, rate, logarithmic ? Axis.log(unit) : Axis.linear(unit), series);
    }

    /** The report as one HTML file. */
    public String html(String title, String command) {
        HtmlPage page = new HtmlPage(title).command(command);
        List<String> columns = present(COLUMNS);
        page.table(
                columns.stream().map(key -> key.replace('_', ' ')).toList(),
                results.stream()
                        .map(result -> columns.stream()
                                .map(key -> String.valueOf(result.getOrDefault(key, "")))
                                .toList())
                        .toList());
        plots().values().forEach(page::plot);
        page.heading("Every field");
        for (Map<String, Object> result : results) {
            page.table(
                    List.of("field", "value"),
                    result.entrySet().stream()
                            .map(entry -> List.of(entry.getKey(), String.valueOf(entry.getValue())))
                            .toList());
        }
        return page.html();
    }
}
