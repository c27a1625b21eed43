package dev.tandem.cuda.device;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.engine.clock.VirtualClock;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(60)
class DeviceWaitTest {
    private static final long SECOND = 1_000_000_000L;

    private final VirtualClock clock = new VirtualClock();
    private final DeviceWait waits = new DeviceWait(clock);

    @Test
    void aConditionThatAlreadyHoldsIsCheckedOnce() {
        AtomicInteger checks = new AtomicInteger();
        assertThat(waits.until(() -> checks.incrementAndGet() > 0, 0, () -> clock.advance(SECOND)))
                .isTrue();
        assertThat(checks).hasValue(1);
    }

    @Test
    void waitsUntilTheConditionHolds() {
        assertThat(waits.until(() -> clock.nanos() >= 9 * SECOND, 10 * SECOND, () -> clock.advance(SECOND / 2)))
                .isTrue();
    }

    @Test
    void stopsWaitingAtTheTimeLimit() {
        AtomicInteger callbacks = new AtomicInteger();
        boolean reached = waits.until(() -> false, 10 * SECOND, () -> {
            callbacks.incrementAndGet();
            clock.advance(SECOND);
        });
        assertThat(reached).isFalse();
        assertThat(clock.nanos()).isBetween(10 * SECOND, 13 * SECOND);
        assertThat(callbacks).hasValueBetween(10, 13);
    }
}
