package dev.tandem.bench;

import dev.tandem.engine.clock.Clock;
import java.util.concurrent.TimeUnit;

/** A clock on which a thread can wait: the machine's, or one of a test that moves when it is waited on. */
public interface WaitingClock extends Clock {
    /** Returns at this time, or at once when it has passed; a machine may return later. */
    void awaitUntil(long nanos) throws InterruptedException;

    /** The machine's monotonic clock. */
    static WaitingClock system() {
        Clock clock = Clock.system();
        return new WaitingClock() {
            @Override
            public long nanos() {
                return clock.nanos();
            }

            @Override
            public void awaitUntil(long nanos) throws InterruptedException {
                for (long left = nanos - nanos(); left > 0; left = nanos - nanos()) {
                    TimeUnit.NANOSECONDS.sleep(left);
                }
            }
        };
    }
}
