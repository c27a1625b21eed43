package dev.tandem.app;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.bench.load.Arrivals;
import dev.tandem.bench.load.http.Conversations;
import dev.tandem.bench.load.http.Prompt;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Optional;
import java.util.PrimitiveIterator;
import java.util.Set;
import java.util.function.IntFunction;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class ServeLoadOptionsTest {
    private static final int REQUESTS = 1_000;

    /** Four standard deviations of the correlation of this many independent pairs. */
    private static final double MAX_CORRELATION = 4 / Math.sqrt(REQUESTS);

    private static ServeLoadOptions options(long seed) {
        ServeLoadOptions options = new ServeLoadOptions();
        options.range = 0.5;
        options.seed = seed;
        return options;
    }

    private static IntFunction<Prompt> prompts(long seed) {
        return options(seed).conversations().apply(0).first();
    }

    @ParameterizedTest
    @ValueSource(strings = {"/v1/completions", "/v1/chat/completions"})
    void eachRateAsksForOtherPromptsOfTheSameLengths(String endpoint) {
        Set<String> starts = new HashSet<>();
        int runs = 3;
        int seeds = 3;
        for (long seed = 0; seed < seeds; seed++) {
            ServeLoadOptions options = options(seed);
            options.endpoint = endpoint;
            IntFunction<Conversations> conversations = options.conversations();
            Prompt first = conversations.apply(0).first().apply(0);
            for (int run = 0; run < runs; run++) {
                Prompt prompt = conversations.apply(run).first().apply(0);
                starts.add(start(prompt));
                assertThat(prompt.promptTokens()).isEqualTo(first.promptTokens());
                assertThat(prompt.outputTokens()).isEqualTo(first.outputTokens());
            }
        }
        assertThat(starts).hasSize(runs * seeds);
    }

    /** The first eight tokens or words. */
    private static String start(Prompt prompt) {
        return switch (prompt.content()) {
            case Prompt.Content.Tokens tokens -> Arrays.toString(Arrays.copyOf(tokens.ids(), 8));
            case Prompt.Content.Text text ->
                Arrays.toString(Arrays.copyOf(text.text().split(" "), 8));
            case Prompt.Content.Messages messages -> messages.texts().toString();
        };
    }

    @Test
    void conversationsOfAWorkloadWithTurnsDifferBetweenRatesToo() {
        ServeLoadOptions options = options(0);
        options.workload = Optional.of("prefix:100/10/5/3");
        IntFunction<Conversations> conversations = options.conversations();
        assertThat(start(conversations.apply(0).first().apply(0)))
                .isNotEqualTo(start(conversations.apply(1).first().apply(0)));
    }

    @ParameterizedTest
    @ValueSource(longs = {0, 1, 42})
    void lengthsOfRandomRequestsDoNotFollowTheArrivals(long seed) {
        IntFunction<Prompt> prompts = prompts(seed);
        PrimitiveIterator.OfLong times = new Arrivals.Poisson(1).times(seed);
        double[] intervals = new double[REQUESTS];
        double[] inputs = new double[REQUESTS];
        double[] outputs = new double[REQUESTS];
        long before = 0;
        for (int i = 0; i < REQUESTS; i++) {
            long time = times.nextLong();
            intervals[i] = time - before;
            before = time;
            inputs[i] = prompts.apply(i).promptTokens();
            outputs[i] = prompts.apply(i).outputTokens();
        }
        assertThat(Math.abs(correlation(intervals, inputs))).isLessThan(MAX_CORRELATION);
        assertThat(Math.abs(correlation(intervals, outputs))).isLessThan(MAX_CORRELATION);
    }

    @ParameterizedTest
    @ValueSource(longs = {0, 1, 42})
    void aRandomPromptsLengthDoesNotFollowTheOutputOfTheRequestBefore(long seed) {
        IntFunction<Prompt> prompts = prompts(seed);
        double[] outputs = new double[REQUESTS];
        double[] nextInputs = new double[REQUESTS];
        for (int i = 0; i < REQUESTS; i++) {
            outputs[i] = prompts.apply(i).outputTokens();
            nextInputs[i] = prompts.apply(i + 1).promptTokens();
        }
        assertThat(Math.abs(correlation(outputs, nextInputs))).isLessThan(MAX_CORRELATION);
    }

    private static double correlation(double[] x, double[] y) {
        double meanX = mean(x);
        double meanY = mean(y);
        double both = 0;
        double squaresX = 0;
        double squaresY = 0;
        for (int i = 0; i < x.length; i++) {
            both += (x[i] - meanX) * (y[i] - meanY);
            squaresX += (x[i] - meanX) * (x[i] - meanX);
            squaresY += (y[i] - meanY) * (y[i] - meanY);
        }
        return both / Math.sqrt(squaresX * squaresY);
    }

    private static double mean(double[] values) {
        double sum = 0;
        for (double value : values) {
            sum += value;
        }
        return sum / values.length;
    }
}
