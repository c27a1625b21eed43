package dev.tandem.app;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.bench.load.Arrivals;
import dev.tandem.bench.load.http.Prompt;
import java.util.PrimitiveIterator;
import java.util.function.IntFunction;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class ServeLoadOptionsTest {
    private static final int REQUESTS = 1_000;

    /** Four standard deviations of the correlation of this many independent pairs. */
    private static final double MAX_CORRELATION = 4 / Math.sqrt(REQUESTS);

    private static IntFunction<Prompt> prompts(long seed) {
        ServeLoadOptions options = new ServeLoadOptions();
        options.range = 0.5;
        options.seed = seed;
        return options.conversations().first();
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
