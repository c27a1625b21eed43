package dev.tandem.bench.load;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import dev.tandem.engine.config.ConfigurationException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.PrimitiveIterator;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class ArrivalsTest {
    private static final int SAMPLES = 200_000;

    private static double[] intervals(Arrivals arrivals, long seed, int count) {
        PrimitiveIterator.OfLong times = arrivals.times(seed);
        long[] before = {0};
        return IntStream.range(0, count)
                .mapToDouble(i -> {
                    long time = times.nextLong();
                    long interval = time - before[0];
                    before[0] = time;
                    return interval / 1e9;
                })
                .toArray();
    }

    private static double mean(double[] values) {
        return Arrays.stream(values).average().orElseThrow();
    }

    private static double variation(double[] values) {
        double mean = mean(values);
        return Math.sqrt(Arrays.stream(values)
                        .map(v -> (v - mean) * (v - mean))
                        .average()
                        .orElseThrow())
                / mean;
    }

    @ParameterizedTest
    @ValueSource(doubles = {0.25, 4})
    void poissonIntervalsHaveTheRateAndAVariationOfOne(double rate) {
        double[] intervals = intervals(new Arrivals.Poisson(rate), 7, SAMPLES);
        assertThat(mean(intervals)).as("seed 7").isCloseTo(1 / rate, within(0.01 / rate));
        assertThat(variation(intervals)).as("seed 7").isCloseTo(1, within(0.01));
        assertThat(Arrays.stream(intervals).filter(i -> i > 1 / rate).count())
                .as("an exponential variate exceeds its mean with probability 1/e")
                .isCloseTo((long) (SAMPLES / Math.E), within(SAMPLES / 100L));
    }

    @ParameterizedTest
    @CsvSource({"0.25, 2", "1, 1", "4, 0.5"})
    void gammaIntervalsHaveTheVariationOfTheirBurstiness(double burstiness, double variation) {
        double[] intervals = intervals(new Arrivals.Gamma(3, burstiness), 11, SAMPLES);
        assertThat(mean(intervals)).as("seed 11").isCloseTo(1.0 / 3, within(0.01 / 3 * 2));
        assertThat(variation(intervals)).as("seed 11").isCloseTo(variation, within(0.02 * variation));
    }

    @Test
    void equalSeedsGiveEqualTimes() {
        for (Arrivals arrivals : new Arrivals[] {new Arrivals.Poisson(2), new Arrivals.Gamma(2, 0.5)}) {
            assertThat(intervals(arrivals, 3, 100)).containsExactly(intervals(arrivals, 3, 100));
            assertThat(intervals(arrivals, 3, 100)).isNotEqualTo(intervals(arrivals, 4, 100));
        }
    }

    @Test
    void constantArrivalsDoNotDrift() {
        PrimitiveIterator.OfLong times = new Arrivals.Constant(3).times(0);
        long last = 0;
        for (int i = 0; i < 3_000_000; i++) {
            last = times.nextLong();
        }
        assertThat(last).isEqualTo(1_000_000L * 1_000_000_000);
    }

    @Test
    void aTraceBeginsAtZeroAndIsScaledToARate() {
        Arrivals.Trace trace = new Arrivals.Trace("t", new long[] {5_000_000_000L, 6_000_000_000L, 9_000_000_000L}, 1);
        assertThat(trace.requestsPerSecond().orElseThrow()).isEqualTo(0.5);
        Arrivals faster = trace.atRate(2);
        assertThat(faster.requestsPerSecond().orElseThrow()).isEqualTo(2);
        PrimitiveIterator.OfLong times = faster.times(0);
        assertThat(times.nextLong()).isZero();
        assertThat(times.nextLong()).isEqualTo(250_000_000);
        assertThat(times.nextLong()).isEqualTo(1_000_000_000);
        assertThat(times.hasNext()).isFalse();
    }

    @Test
    void theTracesOfTheWorkloadsAreRead() {
        Arrivals.Trace code = TraceFile.read("azure-code");
        assertThat(code.requests()).isEqualTo(8819);
        assertThat(code.requestsPerSecond().orElseThrow()).isCloseTo(2.56, within(0.2));
    }

    @Test
    void aBadTraceNamesItsLine(@TempDir Path folder) throws IOException {
        Path file = Files.writeString(folder.resolve("trace.csv"), "seconds,in\n0.5,3\nsoon,4\n");
        assertThatThrownBy(() -> TraceFile.read(file.toString()))
                .isInstanceOf(ConfigurationException.class)
                .hasMessageContaining("line 3")
                .hasMessageContaining("'soon'");
        Path backwards = Files.writeString(folder.resolve("back.csv"), "2\n1.5\n");
        assertThatThrownBy(() -> TraceFile.read(backwards.toString())).hasMessageContaining("arrival 2");
    }

    @Test
    void aRateOfZeroIsRefused() {
        assertThatThrownBy(() -> new Arrivals.Poisson(0)).hasMessageContaining("--request-rate 0.0");
        assertThatThrownBy(() -> new Arrivals.Gamma(1, 0)).hasMessageContaining("--burstiness 0.0");
    }
}
