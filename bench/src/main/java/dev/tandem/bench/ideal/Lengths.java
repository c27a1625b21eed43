package dev.tandem.bench.ideal;

import dev.tandem.bench.Workload;
import java.util.function.DoubleUnaryOperator;

/**
 * The mean request of a workload.
 *
 * @param prompt tokens
 * @param output tokens
 * @param cached fraction of the prompt whose KV prefix caching has; the GPU alone has it for free
 * @param requestsOf number of requests that run at a time in a GPU pool of so many tokens
 */
public record Lengths(double prompt, double output, double cached, DoubleUnaryOperator requestsOf) {
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

    /** Tokens of context of a running request, on average. */
    double context() {
        return prompt + output / 2;
    }

    /** Prompt tokens that are computed per output token. */
    double computedPromptPerOutput() {
        return prompt * (1 - cached) / output;
    }

    /** Tokens of context of a prompt token that is computed, on average. */
    double contextOfPromptToken() {
        return cached * prompt + (1 - cached) * prompt / 2;
    }
}
