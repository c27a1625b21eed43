package dev.tandem.app;

import dev.tandem.bench.Statistics;
import dev.tandem.bench.ideal.IdealFields;
import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.engine.strategy.select.Strategy;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import picocli.CommandLine;

/** Runs a benchmark once per strategy of {@code --strategy}, and gives each result its ratio to gpu-only's. */
final class StrategyComparison {
    private static final String FLAG = "--strategy";
    private static final String RATIO = "ratio_to_gpu_only";
    private static final String BYTES = "gpu_kv_bytes";
    private static final String REQUEST_RATE = "request_rate";

    private StrategyComparison() {}

    /** A benchmark command with the options of one strategy. */
    interface Benchmark {
        ModelOptions options();

        BenchReport report();

        /** Runs to the end and returns the fields of each result: one, or one per arrival rate. */
        List<Map<String, Object>> measure() throws IOException, InterruptedException;

        /**
         * Checks the options for a list of strategies.
         *
         * @throws ConfigurationException when an option holds for one strategy alone
         */
        default void checkForSeveral() {}

        /** Prepares a list of strategies; called once, with the options of the first one that offloads. */
        default void prepare() {}
    }

    /**
     * Runs the command for one strategy, or for each of a list in order.
     *
     * @param given the command line as parsed, from its first word
     * @throws ConfigurationException when a list does not begin with gpu-only, or names an unknown strategy
     */
    static void run(Benchmark benchmark, List<String> given) throws IOException, InterruptedException {
        String value = benchmark.options().strategy.strategy;
        if (!value.contains(",")) {
            for (Map<String, Object> result : benchmark.measure()) {
                if (benchmark.options().strategy.chosen() == Strategy.GPU_ONLY) {
                    result.put(RATIO, 1.0);
                }
                benchmark.report().write(result);
            }
            return;
        }
        benchmark.checkForSeveral();
        List<Map<String, Object>> results = new ArrayList<>();
        List<Map<String, Object>> gpuOnly = List.of();
        List<String> names = strategies(value);
        names.stream()
                .filter(name -> Strategy.of(name).offloads())
                .findFirst()
                .ifPresent(name -> parse(withStrategy(given, name)).prepare());
        for (String name : names) {
            Benchmark one = parse(withStrategy(given, name));
            List<Map<String, Object>> measured = one.measure();
            gpuOnly = gpuOnly.isEmpty() ? measured : gpuOnly;
            for (int i = 0; i < measured.size(); i++) {
                Map<String, Object> result = measured.get(i);
                compare(result, gpuOnly.get(i));
                one.report().write(result);
            }
            results.addAll(measured);
        }
        System.err.print(table(results));
    }

    /** The strategies of a list, gpu-only first. */
    static List<String> strategies(String list) {
        List<String> names = List.of(list.split(",", -1));
        names.forEach(Strategy::of);
        if (!names.getFirst().equals(Strategy.GPU_ONLY.flag())) {
            throw new ConfigurationException(FLAG + " " + list + " begins with " + names.getFirst()
                    + "; a list begins with gpu-only, to which the others are compared");
        }
        return names;
    }

    /** The same command line for one strategy. */
    static List<String> withStrategy(List<String> given, String name) {
        List<String> args = new ArrayList<>(given);
        for (int i = 0; i < args.size(); i++) {
            if (args.get(i).startsWith(FLAG + "=")) {
                args.set(i, FLAG + "=" + name);
            } else if (args.get(i).equals(FLAG)) {
                args.set(i + 1, name);
            }
        }
        return args;
    }

    /** Parses anew, because a run changes its options: a preset has other defaults for gpu-only. */
    private static Benchmark parse(List<String> args) {
        CommandLine command = Main.command().setCaseInsensitiveEnumValuesAllowed(true);
        command.parseArgs(args.toArray(String[]::new));
        CommandLine innermost = command;
        while (innermost.getParseResult().hasSubcommand()) {
            innermost = innermost.getParseResult().subcommand().commandSpec().commandLine();
        }
        return innermost.getCommand();
    }

    /**
     * Adds the ratio, and at equal arrivals the share of the ideal's gain. A search finds a rate of its own for each
     * strategy.
     */
    static void compare(Map<String, Object> result, Map<String, Object> gpuOnly) {
        double ratio = IdealFields.throughput(result) / IdealFields.throughput(gpuOnly);
        result.put(RATIO, Statistics.rounded(ratio));
        if (Objects.equals(result.get(REQUEST_RATE), gpuOnly.get(REQUEST_RATE))) {
            IdealFields.shareOfGain(result);
        }
    }

    private static double number(Map<String, Object> result, String key) {
        return ((Number) Objects.requireNonNull(result.get(key), key)).doubleValue();
    }

    /** The ratios, and GPU bytes that are not those of gpu-only. */
    static String table(List<Map<String, Object>> results) {
        double bytes = number(results.getFirst(), BYTES);
        StringBuilder text = new StringBuilder(
                String.format(Locale.ROOT, "%n%-16s %15s %17s%n", "strategy", "output tokens/s", "ratio to gpu-only"));
        for (Map<String, Object> result : results) {
            text.append(String.format(
                    Locale.ROOT,
                    "%-16s %15.1f %17.3f%s%n",
                    result.get("strategy"),
                    IdealFields.throughput(result),
                    number(result, RATIO),
                    number(result, BYTES) == bytes
                            ? ""
                            : String.format(
                                    Locale.ROOT,
                                    "  with %.3f of its GPU KV bytes; set --num-gpu-blocks-override for equal bytes",
                                    number(result, BYTES) / bytes)));
        }
        return text.toString();
    }
}
