package dev.tandem.server.openai;

import dev.tandem.engine.clock.Clock;
import dev.tandem.engine.request.RequestException;

/**
 * When a request's answer must be complete, as its {@code timeout} says.
 *
 * <p>Owned by: the request's virtual thread.
 *
 * @param seconds the timeout; 0 for none
 * @param startNanos when it began to run, by {@link #now}
 */
record Deadline(double seconds, long startNanos) {
    /** A day; a longer timeout bounds nothing that matters. */
    private static final double MAX_SECONDS = 86_400;

    /** Reads {@code timeout}, which runs from {@code startNanos} on. */
    static Deadline read(RequestFields fields, long startNanos) {
        if (fields.field("timeout").isEmpty()) {
            return new Deadline(0, startNanos);
        }
        double seconds = fields.number("timeout", 0);
        if (!(seconds > 0 && seconds <= MAX_SECONDS)) {
            throw RequestException.bad(
                    "timeout",
                    "timeout is " + seconds + "; it must be a number of seconds in (0, " + (long) MAX_SECONDS + "]");
        }
        return new Deadline(seconds, startNanos);
    }

    /** Nanoseconds of a monotonic clock. */
    static long now() {
        return Clock.system().nanos();
    }

    boolean exists() {
        return seconds > 0;
    }

    /** Negative when it has passed. */
    long remainingNanos() {
        return (long) (seconds * 1e9) - (now() - startNanos);
    }

    /** What the client is told when it has passed. */
    String message() {
        return "the request's timeout of " + seconds + " s has passed; send a longer timeout, or ask for fewer tokens";
    }
}
