package dev.tandem.bench.ideal;

import dev.tandem.bench.Workload;
import java.util.function.DoubleUnaryOperator;

/**
 * The mean request of a workload.
 *
 * @param prompt tokens
 * @param output tokens
 * @param cached fraction of the prompt whose KV prefix caching has; the GPU alone has it for free
 * @param window tokens that a token attends to, and whose KV a request holds, at most
 * @param requestsOf number of requests that run at a time in a GPU pool of so many tokens
 */
public record Lengths(double prompt, double output, double cached, double window, DoubleUnaryOperator requestsOf) {
    /** Requests of a model whose tokens attend to all earlier ones. */
    public Lengths(double prompt, double output, double cached, DoubleUnaryOperator requestsOf) {
        this(prompt, output, cached, Double.POSITIVE_INFINITY, requestsOf);
    }

    /** The mean request of a workload, packed whole into the pool. */
    public static Lengths of(Workload workload) {
        double prompt = workload.lengths().stream()
                .mapToInt(Workload.Lengths::prompt)
                .average()
                .orElseThrow();
        double output = workload.lengths().stream()
                .mapToInt(Workload.Lengths::output)
                .average()
                .orElseThrow();
        return new Lengths(prompt, output, 0, tokens -> Packing.meanRequests(workload, tokens));
    }

    /** Requests that are all of these lengths and may be divided. */
    public static Lengths divisible(double prompt, double output, double cached) {
        double held = prompt + output / 2;
        return new Lengths(prompt, output, cached, tokens -> tokens / held);
    }

    /** The same requests for a model with a sliding window in every layer, if they are longer than it. */
    public Lengths within(int tokens) {
        return prompt + output <= tokens
                ? this
                : new Lengths(prompt, output, cached, tokens, pool -> pool / meanUpTo(prompt, prompt + output, tokens));
    }

    /** Tokens of context of a running request that a token attends to, on average. */
    double context() {
        return meanUpTo(prompt, prompt + output, window);
    }

    /** The mean of the lengths from {@code from} to {@code to}, each limited to {@code max}. */
    private static double meanUpTo(double from, double to, double max) {
        if (to <= max) {
            return from + (to - from) / 2;
        }
        double inside = Math.max(0, max - from);
        return (inside * (from + inside / 2) + (to - from - inside) * max) / (to - from);
    }

    /** Prompt tokens that are computed per output token. */
    double computedPromptPerOutput() {
        return prompt * (1 - cached) / output;
    }

    /** Tokens of context of a prompt token that is computed, on average. */
    double contextOfPromptToken() {
        return meanUpTo(cached * prompt, prompt, window);
    }
}
