package dev.tandem.cuda.step;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.cuda.device.Device;
import dev.tandem.cuda.device.FakeDriver;
import dev.tandem.cuda.device.Stream;
import dev.tandem.cuda.ffi.CudaException;
import dev.tandem.engine.clock.Clock;
import dev.tandem.engine.executor.ExecutorException;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Times and timeouts of steps, on a fake driver. */
@Timeout(60)
class GpuClockTest {
    private static final long SECOND = 1_000_000_000L;

    private final FakeDriver fake = new FakeDriver();
    private long now;
    private final Clock time = () -> now += SECOND;
    private final Device device = new Device(fake.driver(), 0, 0, time);
    private final Stream stream = device.stream("test");
    private final GpuClock clock = new GpuClock(device);

    @Test
    void theTimeOfAFinishedStepIsReported() {
        int slot = clock.begin(stream);
        clock.end(stream, slot);
        assertThat(clock.await(slot, 1, SECOND, () -> {})).isEqualTo(1.5f);
    }

    @Test
    void totalsAddUpStepsAndTheGapsBetweenThem() {
        for (int step = 0; step < 3; step++) {
            int slot = clock.begin(stream);
            clock.end(stream, slot);
            clock.await(slot, step, SECOND, () -> {});
        }
        assertThat(clock.totals()).isEqualTo(new GpuClock.Totals(4.5, 3));
    }

    @Test
    void aPauseBeforeAStepSamplesIsIdleTime() {
        for (int step = 0; step < 2; step++) {
            int slot = clock.begin(stream);
            clock.pause(stream, slot);
            clock.resume(stream, slot);
            clock.end(stream, slot);
            clock.await(slot, step, SECOND, () -> {});
        }
        assertThat(clock.totals()).isEqualTo(new GpuClock.Totals(0, 4.5));
    }

    @Test
    void theTimeoutOfAHungStepNamesItsNumberAndLimit() {
        fake.codes.put("cuEventQuery", 600);
        AtomicInteger watched = new AtomicInteger();
        int slot = clock.begin(stream);
        assertThatThrownBy(() -> clock.await(slot, 42, 12 * SECOND, watched::incrementAndGet))
                .isInstanceOf(ExecutorException.class)
                .hasMessageContaining("did not finish step 42 within 12.0 s")
                .hasMessageContaining("restart");
        assertThat(watched).hasPositiveValue();
    }

    @Test
    void closingDestroysAllEventsEvenIfTheDriverFails() {
        fake.codes.put("cuEventDestroy_v2", 700);
        assertThatThrownBy(clock::close).isInstanceOf(CudaException.class);
        assertThat(fake.calls).filteredOn("cuEventDestroy_v2"::equals).hasSize(4 * GpuClock.RING);
    }

    @Test
    void longPromptsAndCpuAttentionExtendTheDeadline() {
        StepDeadline usual = StepDeadline.USUAL;
        assertThat(usual.nanos(1, false, 10 * SECOND)).isBetween(10 * SECOND, 11 * SECOND);
        assertThat(usual.nanos(8192, false, 10 * SECOND)).isBetween(90 * SECOND, 95 * SECOND);
        assertThat(usual.nanos(1, true, 10 * SECOND)).isBetween(50 * SECOND, 51 * SECOND);
    }
}
