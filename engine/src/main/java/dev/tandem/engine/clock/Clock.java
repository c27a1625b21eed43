package dev.tandem.engine.clock;

/** Monotonic time in nanoseconds since an arbitrary origin. */
@FunctionalInterface
public interface Clock {
    /** The time now. */
    long nanos();

    /** The machine's monotonic clock: the only place in the engine that reads it. */
    static Clock system() {
        return System::nanoTime;
    }
}
