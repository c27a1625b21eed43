package dev.tandem.server.http;

import dev.tandem.engine.clock.Clock;
import java.util.Locale;
import java.util.function.Consumer;

/**
 * Writes one line per request at its end. It shows no prompt and no answer, and text of a client cannot begin a line of
 * its own.
 *
 * <p>Owned by: the event loops, which write whole lines.
 */
public interface AccessLog {
    /** Writes nothing. */
    AccessLog OFF = new AccessLog() {
        @Override
        public long now() {
            return 0;
        }

        @Override
        public void ended(Exchange exchange) {}
    };

    /** Nanoseconds of a monotonic clock; an exchange takes them when its request is complete. */
    long now();

    /** Called once per exchange, after its answer or after the client has gone. */
    void ended(Exchange exchange);

    /**
     * A line has the form {@code POST /v1/completions 200 512ms prompt_tokens=9 output_tokens=64 client=... id=...}.
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
                        shown(exchange.method()),
                        shown(exchange.path()),
                        exchange.status(),
                        (clock.nanos() - exchange.startedNanos()) / 1_000_000,
                        exchange.promptTokens(),
                        exchange.outputTokens(),
                        exchange.client(),
                        shown(exchange.requestId())));
            }
        };
    }

    /** Without blanks, so that a field is one word. */
    private static String shown(String text) {
        return text.isEmpty() ? "-" : Printable.of(text).replace(' ', '+');
    }
}
