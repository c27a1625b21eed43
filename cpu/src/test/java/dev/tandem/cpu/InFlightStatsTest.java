package dev.tandem.cpu;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.engine.EngineHarness;
import dev.tandem.engine.executor.Readiness;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.PolicyScheduler;
import dev.tandem.engine.strategy.TestProfile;
import dev.tandem.engine.strategy.select.Strategy;
import dev.tandem.model.config.DataType;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** What the gauge {@code tandem:in_flight_tokens} shows: tokens that are between layers when a step has ended. */
@Timeout(value = 1, unit = TimeUnit.MINUTES)
class InFlightStatsTest {
    private static final Budget BUDGET = new Budget(64, 8, 64);

    /** Counts the layers at which a token was in flight. */
    private static final class Counting implements Readiness {
        private final Readiness readiness;
        private int issued;

        Counting(Readiness readiness) {
            this.readiness = readiness;
        }

        @Override
        public void issued(long step, int layer, long sequence) {
            issued++;
            readiness.issued(step, layer, sequence);
        }

        @Override
        public List<Long> ready(long step, int layer, List<Long> standing) {
            return readiness.ready(step, layer, standing);
        }
    }

    /** The max of in-flight tokens after any step, of requests that do not fit the GPU's pool. */
    private static int maxInFlight(Counting readiness) {
        int max = 0;
        try (EngineHarness engine = new EngineHarness(
                TestModels.deep(DataType.BFLOAT16, 6, 24, readiness),
                PolicyScheduler.of(Strategy.ASYNC_OVERLAP.policy(Strategy.Options.of(BUDGET), TestProfile.withCpu(1))),
                BUDGET)) {
            for (int i = 0; i < 8; i++) {
                engine.submit("r" + i, new int[] {5, 6, 7 + i}, EngineHarness.greedy(40));
            }
            while (!engine.loop.isIdle()) {
                engine.step();
                max = Math.max(max, engine.loop.stats().requests().inFlight());
            }
        }
        assertThat(readiness.issued).as("tokens in flight").isPositive();
        return max;
    }

    @Test
    void tokensWhoseAttentionReturnsAtOnceAreNotBetweenLayersWhenAStepEnds() {
        assertThat(maxInFlight(new Counting(Readiness.allEarly()))).isZero();
    }

    @Test
    void tokensWhoseAttentionIsLateAre() {
        assertThat(maxInFlight(new Counting(Readiness.allLate()))).isPositive();
    }
}
