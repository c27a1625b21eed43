package dev.tandem.server.http;

import dev.tandem.engine.clock.Clock;
import java.util.Locale;
import java.util.function.Consumer;

/**
 * Writes one line per request when it ends. A line has no text of prompts or answers, and text from a client cannot
 * start a new line.
 *
 * <p>Owned by: the event loops, which write whole lines.
 */
public interface AccessLog {
    /** An access log that writes nothing. */
    AccessLog OFF = new AccessLog() {
        @Override
        public long now() {
            return 0;
        }

        @Override
        public void ended(Exchange exchange) {}
    };

    /** Nanoseconds of a monotonic clock; an exchange stores them when its request has arrived completely. */
    long now();

    /** Called once per exchange, after its answer or after the client disconnected. */
    void ended(Exchange exchange);

    /**
     * An access log with lines of the form {@code POST /v1/completions 200 512ms prompt_tokens=9 output_tokens=64
     * client=... id=...}.
     */
    static AccessLog to(Clock clock, Consumer<String> lines) {
        return new AccessLog() {
            @Override
            public long now() {
                return clock.nanos();
            }

            @Override
            public void ended(Exchange exchange) {
                lines.accept(String.format(
                        Locale.ROOT,
                        "%s %s %d %dms prompt_tokens=%d output_tokens=%d client=%s id=%s",
                        field(exchange.method()),
                        field(exchange.path()),
                        exchange.status(),
                        (clock.nanos() - exchange.startedNanos()) / 1_000_000,
                        exchange.promptTokens(),
                        exchange.outputTokens(),
                        exchange.client(),
                        field(exchange.requestId())));
            }
        };
    }

    /** The text without spaces, so that a log parser can split the line at spaces. */
    private static String field(String text) {
        return text.isEmpty() ? "-" : Printable.of(text).replace(' ', '+');
    }
}
