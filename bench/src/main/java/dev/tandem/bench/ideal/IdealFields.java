package dev.tandem.bench.ideal;

import dev.tandem.bench.Statistics;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;

/** The ideal as fields of results. */
public final class IdealFields {
    /** A smaller ideal gain is within the noise of a measurement, and a fraction of it says nothing. */
    private static final double MIN_GAIN = 0.02;

    private static final String IDEAL_RATIO = "ideal_ratio";
    private static final String IDEAL_RATE = "ideal_output_tokens_per_second";
    /** Output tokens per second of a closed loop and of an open one; a result has one of them. */
    private static final List<String> RATES = List.of("output_tokens_per_second", "output_throughput");

    private IdealFields() {}

    /** The fields of a result that is an ideal by itself. */
    public static Map<String, Object> describe(Ideal ideal) {
        Map<String, Object> fields = new LinkedHashMap<>();
        ideal.gpuOnly().ifPresent(alone -> {
            fields.put("gpu_only_output_tokens_per_second", Statistics.rounded(alone.tokensPerSecond()));
            fields.put("gpu_only_sequences", Statistics.rounded(alone.gpuSequences()));
            fields.put("gpu_only_limits", alone.limits());
        });
        Schedule best = ideal.best();
        fields.put(IDEAL_RATE, Statistics.rounded(best.tokensPerSecond()));
        ideal.ratio().ifPresent(ratio -> fields.put(IDEAL_RATIO, Statistics.rounded(ratio)));
        fields.put("limits", best.limits());
        fields.put("gpu_sequences", Statistics.rounded(best.gpuSequences()));
        fields.put("host_token_fraction", Statistics.rounded(best.use().hostTokens()));
        fields.put("host_token_ms", Statistics.rounded(1e3 * best.use().hostTokenSeconds()));
        fields.put("cpu_attention_busy", Statistics.rounded(best.use().cpuAttention()));
        fields.put("link_busy", Statistics.rounded(best.use().link()));
        fields.put("host_reads_busy", Statistics.rounded(best.use().hostReads()));
        fields.put("mix", best.mix().stream().map(IdealFields::part).toList());
        return fields;
    }

    private static Map<String, Object> part(Schedule.Part part) {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("placement", part.placement());
        fields.put("prompt_tokens", Statistics.rounded(part.prompt()));
        fields.put("host_tokens", Statistics.rounded(part.hostTokens()));
        fields.put("link_tokens", Statistics.rounded(part.linkTokens()));
        fields.put("time_fraction", Statistics.rounded(part.time()));
        return fields;
    }

    /**
     * Output tokens per second of a result, whatever its loop.
     *
     * @param result has {@code output_tokens_per_second} of a closed loop, or {@code output_throughput} of an open one
     */
    public static double throughput(Map<String, Object> result) {
        return RATES.stream()
                .filter(result::containsKey)
                .map(key -> ((Number) Objects.requireNonNull(result.get(key), key)).doubleValue())
                .findFirst()
                .orElseThrow();
    }

    /**
     * Completes a result with {@code ideal_output_tokens_per_second}, {@code ideal_ratio}, {@code share_of_ideal} and,
     * as {@link #shareOfGain}, {@code share_of_ideal_gain}. The result needs its {@link #throughput}.
     *
     * @param result fields of a measured or simulated run on the ideal's machine, model, workload and GPU bytes
     */
    public static void complete(Map<String, Object> result, Ideal ideal) {
        complete(result, ideal.best().tokensPerSecond());
        ideal.ratio().ifPresent(ratio -> result.put(IDEAL_RATIO, Statistics.rounded(ratio)));
        shareOfGain(result);
    }

    /**
     * Completes a result of which the ideal throughput alone is known, with {@code ideal_output_tokens_per_second} and
     * {@code share_of_ideal}.
     *
     * @param idealTokensPerSecond output tokens per second of the best schedule
     */
    public static void complete(Map<String, Object> result, double idealTokensPerSecond) {
        double share = throughput(result) / idealTokensPerSecond;
        result.put(IDEAL_RATE, Statistics.rounded(idealTokensPerSecond));
        result.put("share_of_ideal", Statistics.rounded(share));
    }

    /**
     * Adds {@code share_of_ideal_gain}, (ratio - 1) / (ideal ratio - 1), to a result with {@code ratio_to_gpu_only} and
     * {@code ideal_ratio}. Leaves it out without them, and where the ideal gain is below 2 %.
     */
    public static void shareOfGain(Map<String, Object> result) {
        if (result.get("ratio_to_gpu_only") instanceof Number ratio
                && result.get(IDEAL_RATIO) instanceof Number ideal
                && ideal.doubleValue() - 1 >= MIN_GAIN) {
            result.put(
                    "share_of_ideal_gain", Statistics.rounded((ratio.doubleValue() - 1) / (ideal.doubleValue() - 1)));
        }
    }

    /** One line for people: the gain to expect at best, and what limits it. */
    public static String line(Ideal ideal, String workload) {
        Schedule best = ideal.best();
        List<String> limits = best.limits();
        return ideal.ratio()
                .map(ratio -> "at best %.2f times gpu-only's %.0f output tokens/s on %s; limits: %s"
                        .formatted(
                                ratio,
                                ideal.gpuOnly().orElseThrow().tokensPerSecond(),
                                workload,
                                String.join("; ", limits)))
                .orElseGet(() -> "only a host tier holds a request of %s; at best %.0f output tokens/s; limits: %s"
                        .formatted(workload, best.tokensPerSecond(), String.join("; ", limits)));
    }
}
