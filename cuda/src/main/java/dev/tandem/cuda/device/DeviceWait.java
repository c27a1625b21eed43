package dev.tandem.cuda.device;

import dev.tandem.engine.clock.Clock;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;

/**
 * How a host thread waits for the GPU: it spins first, because nothing wakes it sooner, then looks every
 * {@link #PAUSE_NANOS}, and gives up at a limit.
 *
 * <p>Owned by: nobody, it has no state. Any thread may wait.
 */
public final class DeviceWait {
    /** Looks between two reads of the clock: a fraction of a millisecond. */
    private static final int LOOKS = 256;
    /**
     * Nearly every step ends while the host still spins. For a longer one {@link #PAUSE_NANOS} are less than a
     * thousandth.
     */
    private static final long SPIN_NANOS = 1_000_000_000;

    private static final long PAUSE_NANOS = 100_000;

    private final Clock clock;

    public DeviceWait(Clock clock) {
        this.clock = clock;
    }

    /**
     * Waits until {@code reached} says so.
     *
     * @param meanwhile is run now and then
     * @return false when that took longer than {@code limitNanos}
     */
    public boolean until(BooleanSupplier reached, long limitNanos, Runnable meanwhile) {
        long began = 0;
        boolean spins = true;
        for (long looks = 1; !reached.getAsBoolean(); looks++) {
            if (!spins) {
                LockSupport.parkNanos(PAUSE_NANOS);
            } else if (looks % LOOKS != 0) {
                Thread.onSpinWait();
                continue;
            }
            meanwhile.run();
            long now = clock.nanos();
            if (looks == LOOKS) {
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
