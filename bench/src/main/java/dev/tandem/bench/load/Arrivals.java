package dev.tandem.bench.load;

import dev.tandem.engine.config.ConfigurationException;
import java.util.Arrays;
import java.util.OptionalDouble;
import java.util.PrimitiveIterator;
import java.util.SplittableRandom;
import java.util.function.DoubleSupplier;
import java.util.random.RandomGenerator;
import java.util.stream.LongStream;

/**
 * When requests arrive, whatever the server does with them. Times are nanoseconds since the start of the load; they
 * never decrease.
 */
public sealed interface Arrivals {
    /** Arrival times from the first on; all but those of a trace go on without end. Equal seeds give equal times. */
    PrimitiveIterator.OfLong times(long seed);

    /** Mean requests per second; empty when all requests arrive at once. */
    OptionalDouble requestsPerSecond();

    /** What results say about the arrivals: the kind and its parameters. */
    String describe();

    /** The same kind of arrivals at another mean rate. */
    Arrivals atRate(double perSecond);

    /** Independent requests: intervals are exponential with mean {@code 1 / perSecond}. */
    record Poisson(double perSecond) implements Arrivals {
        public Poisson {
            checkRate(perSecond);
        }

        @Override
        public PrimitiveIterator.OfLong times(long seed) {
            SplittableRandom random = new SplittableRandom(seed);
            return sums(() -> exponential(random) / perSecond);
        }

        @Override
        public OptionalDouble requestsPerSecond() {
            return OptionalDouble.of(perSecond);
        }

        @Override
        public String describe() {
            return "poisson";
        }

        @Override
        public Arrivals atRate(double perSecond) {
            return new Poisson(perSecond);
        }
    }

    /**
     * Bursts or gaps: intervals have a gamma distribution with mean {@code 1 / perSecond}.
     *
     * @param burstiness shape of the distribution, as vLLM's {@code --burstiness}: 1 is Poisson, less has bursts, more
     *     is more even. The coefficient of variation is {@code 1 / sqrt(burstiness)}.
     */
    record Gamma(double perSecond, double burstiness) implements Arrivals {
        public Gamma {
            checkRate(perSecond);
            if (!(burstiness > 0) || burstiness == Double.POSITIVE_INFINITY) {
                throw new ConfigurationException("--burstiness " + burstiness
                        + " must be a number above 0; 1 is Poisson, and --arrivals constant has even intervals");
            }
        }

        @Override
        public PrimitiveIterator.OfLong times(long seed) {
            SplittableRandom random = new SplittableRandom(seed);
            return sums(() -> gamma(burstiness, random) / (burstiness * perSecond));
        }

        @Override
        public OptionalDouble requestsPerSecond() {
            return OptionalDouble.of(perSecond);
        }

        @Override
        public String describe() {
            return "gamma, burstiness " + burstiness;
        }

        @Override
        public Arrivals atRate(double perSecond) {
            return new Gamma(perSecond, burstiness);
        }
    }

    /** Even intervals of {@code 1 / perSecond}; the first request arrives after one. */
    record Constant(double perSecond) implements Arrivals {
        public Constant {
            checkRate(perSecond);
        }

        @Override
        public PrimitiveIterator.OfLong times(long seed) {
            return LongStream.iterate(1, i -> i + 1)
                    .map(i -> Math.round(i / perSecond * 1e9))
                    .iterator();
        }

        @Override
        public OptionalDouble requestsPerSecond() {
            return OptionalDouble.of(perSecond);
        }

        @Override
        public String describe() {
            return "constant";
        }

        @Override
        public Arrivals atRate(double perSecond) {
            return new Constant(perSecond);
        }
    }

    /** All requests at time 0: an infinite rate. */
    record AtOnce() implements Arrivals {
        @Override
        public PrimitiveIterator.OfLong times(long seed) {
            return LongStream.generate(() -> 0).iterator();
        }

        @Override
        public OptionalDouble requestsPerSecond() {
            return OptionalDouble.empty();
        }

        @Override
        public String describe() {
            return "at once";
        }

        @Override
        public Arrivals atRate(double perSecond) {
            return new Poisson(perSecond);
        }
    }

    /** Recorded arrivals, with each time multiplied by a factor; they end with the trace. */
    final class Trace implements Arrivals {
        private final String name;
        private final long[] nanos;
        private final double factor;

        /**
         * Arrivals of a trace.
         *
         * @param name what results call the trace
         * @param nanos arrival times; the first counts as 0
         * @param factor below 1 the load is higher than the recorded one
         * @throws ConfigurationException when the trace is shorter than two requests or a time decreases
         */
        public Trace(String name, long[] nanos, double factor) {
            if (nanos.length < 2) {
                throw new ConfigurationException("the trace " + name + " has " + nanos.length
                        + " arrivals; it needs at least 2, as a rate follows from intervals");
            }
            if (!(factor > 0) || factor == Double.POSITIVE_INFINITY) {
                throw new ConfigurationException(
                        "the factor " + factor + " for the times of the trace " + name + " must be above 0");
            }
            this.name = name;
            this.nanos = nanos.clone();
            this.factor = factor;
            for (int i = 0; i < nanos.length; i++) {
                this.nanos[i] = nanos[i] - nanos[0];
                if (i > 0 && nanos[i] < nanos[i - 1]) {
                    throw new ConfigurationException("arrival " + (i + 1) + " of the trace " + name + " is "
                            + (nanos[i - 1] - nanos[i]) + " ns before the one before it; sort the trace by time");
                }
            }
        }

        /** Number of recorded arrivals. */
        public int requests() {
            return nanos.length;
        }

        @Override
        public PrimitiveIterator.OfLong times(long seed) {
            return Arrays.stream(nanos).map(time -> Math.round(time * factor)).iterator();
        }

        @Override
        public OptionalDouble requestsPerSecond() {
            return OptionalDouble.of((nanos.length - 1) / (nanos[nanos.length - 1] * factor / 1e9));
        }

        @Override
        public String describe() {
            return "trace " + name + ", times x " + factor;
        }

        @Override
        public Arrivals atRate(double perSecond) {
            checkRate(perSecond);
            double recorded = (nanos.length - 1) / (nanos[nanos.length - 1] / 1e9);
            return new Trace(name, nanos, recorded / perSecond);
        }
    }

    private static void checkRate(double perSecond) {
        if (!(perSecond > 0) || perSecond == Double.POSITIVE_INFINITY) {
            throw new ConfigurationException(
                    "--request-rate " + perSecond + " must be a number of requests per second above 0, or inf");
        }
    }

    /** Arrival times from intervals in seconds. */
    private static PrimitiveIterator.OfLong sums(DoubleSupplier interval) {
        return new PrimitiveIterator.OfLong() {
            private double seconds;

            @Override
            public boolean hasNext() {
                return true;
            }

            @Override
            public long nextLong() {
                seconds += interval.getAsDouble();
                return Math.round(seconds * 1e9);
            }
        };
    }

    private static double exponential(RandomGenerator random) {
        return -Math.log(1 - random.nextDouble());
    }

    /**
     * A gamma variate of scale 1, by rejection from a transformed normal variate (Marsaglia and Tsang 2000). A shape
     * below 1 is reached from {@code shape + 1} by a power of a uniform variate.
     */
    private static double gamma(double shape, RandomGenerator random) {
        if (shape < 1) {
            return gamma(shape + 1, random) * Math.pow(1 - random.nextDouble(), 1 / shape);
        }
        double d = shape - 1.0 / 3;
        double c = 1 / Math.sqrt(9 * d);
        while (true) {
            double x = random.nextGaussian();
            double root = 1 + c * x;
            double v = root * root * root;
            if (v > 0 && Math.log(1 - random.nextDouble()) < 0.5 * x * x + d - d * v + d * Math.log(v)) {
                return d * v;
            }
        }
    }
}
