package dev.tandem.bench.load;

import dev.tandem.engine.config.ConfigurationException;
import java.time.Duration;

/** Which requests of a load are measured, and how long the run waits for their ends. */
public sealed interface LoadWindow {
    /** Whether arrivals go on at this time, after this number of requests; times are ns since the start of the load. */
    boolean admits(long arrival, int before);

    /** Whether a request that arrives at this time is measured. */
    boolean measures(long arrival);

    /** Time in ns after the last arrival for which the run waits for measured requests. */
    long drainNanos();

    /**
     * Requests that arrive in {@code duration} after {@code warmUp} are measured. Arrivals go on during
     * {@code coolDown}, so that the measured requests end under the same load.
     */
    record Timed(Duration warmUp, Duration duration, Duration coolDown, Duration drain) implements LoadWindow {
        public Timed {
            if (warmUp.isNegative() || !duration.isPositive() || coolDown.isNegative() || drain.isNegative()) {
                throw new ConfigurationException("--warm-up " + seconds(warmUp) + ", --duration " + seconds(duration)
                        + ", --cool-down " + seconds(coolDown) + " and --max-drain " + seconds(drain)
                        + ": the duration must be above 0 seconds, the others 0 or more");
            }
        }

        private static double seconds(Duration duration) {
            return duration.toNanos() / 1e9;
        }

        @Override
        public boolean admits(long arrival, int before) {
            return arrival < warmUp.plus(duration).plus(coolDown).toNanos();
        }

        @Override
        public boolean measures(long arrival) {
            return arrival >= warmUp.toNanos()
                    && arrival < warmUp.plus(duration).toNanos();
        }

        @Override
        public long drainNanos() {
            return drain.toNanos();
        }
    }

    /** A number of requests, all of them measured. */
    record Requests(int number, Duration drain) implements LoadWindow {
        public Requests {
            if (number < 1) {
                throw new ConfigurationException("--num-prompts " + number + " must be at least 1");
            }
        }

        @Override
        public boolean admits(long arrival, int before) {
            return before < number;
        }

        @Override
        public boolean measures(long arrival) {
            return true;
        }

        @Override
        public long drainNanos() {
            return drain.toNanos();
        }
    }
}
