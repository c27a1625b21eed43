package dev.tandem.bench.ideal;

import dev.tandem.bench.Workload;
import dev.tandem.engine.kv.AttentionSpan;
import java.util.function.DoubleUnaryOperator;

/**
 * The mean request of a workload.
 *
 * @param prompt tokens
 * @param output tokens
 * @param cached fraction of the prompt whose KV prefix caching has; the GPU alone has it for free
 * @param span how many tokens a token attends to, and of how many a request holds the KV
 * @param requestsOf number of requests that run at a time in a GPU pool of so many tokens
 */
public record Lengths(double prompt, double output, double cached, AttentionSpan span, DoubleUnaryOperator requestsOf) {
    /** Requests of a model whose tokens attend to all earlier ones. */
    public Lengths(double prompt, double output, double cached, DoubleUnaryOperator requestsOf) {
        this(prompt, output, cached, AttentionSpan.WHOLE, requestsOf);
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

    /** The same requests for a model whose layers have sliding windows, if a request is longer than one of them. */
    public Lengths within(AttentionSpan windows) {
        double longest = prompt + output;
        int tokens = (int) Math.ceil(longest);
        return windows.tokens(tokens) == tokens
                ? this
                : new Lengths(prompt, output, cached, windows, pool -> pool / windows.meanTokens(prompt, longest));
    }

    /**
     * Tokens of context of a running request that a token attends to, and whose KV the request holds: means over its
     * time and over the layers.
     */
    double context() {
        return span.meanTokens(prompt, prompt + output);
    }

    /** Tokens of a context whose KV a request holds, as a mean over the layers. */
    double held(double context) {
        return span.meanTokens(context, context);
    }

    /** Prompt tokens that are computed per output token. */
    double computedPromptPerOutput() {
        return prompt * (1 - cached) / output;
    }

    /** Tokens of context of a prompt token that is computed, on average. */
    double contextOfPromptToken() {
        return span.meanTokens(cached * prompt, prompt);
    }
}
