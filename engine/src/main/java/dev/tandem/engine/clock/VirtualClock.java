package dev.tandem.engine.clock;

/**
 * A clock that moves only when told to: simulations and tests.
 *
 * <p>Owned by: the thread that advances it.
 */
public final class VirtualClock implements Clock {
    private long now;

    @Override
    public long nanos() {
        return now;
    }

    public void advance(long nanos) {
        if (nanos < 0) {
            throw new IllegalArgumentException("time cannot go back by " + -nanos + " ns");
        }
        now += nanos;
    }
}
