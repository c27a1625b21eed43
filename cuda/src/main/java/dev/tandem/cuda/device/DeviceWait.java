package dev.tandem.cuda.device;

import dev.tandem.engine.clock.Clock;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;

/**
 * Makes a host thread wait for the GPU. The thread spins first, which has the shortest latency, then polls every
 * {@link #PAUSE_NANOS}, and stops at a limit.
 *
 * <p>Owned by: no thread; it has no state. Any thread may wait.
 */
public final class DeviceWait {
    /** Polls between two reads of the clock, which take a fraction of a millisecond. */
    private static final int POLLS_PER_CLOCK_READ = 256;
    /**
     * Max time that the thread spins. Nearly every step ends before it; for a longer step {@link #PAUSE_NANOS} are less
     * than a thousandth of its time.
     */
    private static final long SPIN_NANOS = 1_000_000_000;

    private static final long PAUSE_NANOS = 100_000;

    private final Clock clock;

    public DeviceWait(Clock clock) {
        this.clock = clock;
    }

    /**
     * Waits until {@code reached} is true.
     *
     * @param meanwhile runs repeatedly during the wait
     * @return false when the wait took longer than {@code limitNanos}
     */
    public boolean until(BooleanSupplier reached, long limitNanos, Runnable meanwhile) {
        long began = 0;
        boolean spins = true;
        for (long polls = 1; !reached.getAsBoolean(); polls++) {
            if (!spins) {
                LockSupport.parkNanos(PAUSE_NANOS);
            } else if (polls % POLLS_PER_CLOCK_READ != 0) {
                Thread.onSpinWait();
                continue;
            }
            meanwhile.run();
            long now = clock.nanos();
            if (polls == POLLS_PER_CLOCK_READ) {
                began = now;
            }
            if (now - began > limitNanos) {
                return false;
            }
            spins = now - began < SPIN_NANOS;
        }
        return true;
    }
}
