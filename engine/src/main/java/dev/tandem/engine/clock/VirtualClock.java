package dev.tandem.engine.clock;

/**
 * A clock that moves only by {@link #advance}, for simulations and tests.
 *
 * <p>Owned by: the thread that advances it.
 */
public final class VirtualClock implements Clock {
    private long now;

    @Override
    public long nanos() {
        return now;
    }

    /** Moves the time forward. */
    public void advance(long nanos) {
        if (nanos < 0) {
            throw new IllegalArgumentException("the clock was to advance by " + nanos + " ns; it must not be negative");
        }
        now += nanos;
    }
}
