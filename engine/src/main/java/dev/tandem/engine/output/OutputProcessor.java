package dev.tandem.engine.output;

import dev.tandem.engine.observe.EngineListener;
import dev.tandem.engine.request.FinishReason;
import dev.tandem.engine.request.Request;
import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.request.TokenEvent;
import dev.tandem.engine.sampling.Choice;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.util.ArrayDeque;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.Queue;

/**
 * Turns sampled tokens into client events: it decodes text, matches stop strings and calls event sinks, in the order of
 * sampling.
 *
 * <p>Tokens wait here until {@link #process}, so that this work overlaps with the next step. The text of a token may
 * end its request. A callback that throws (text decoder, event sink) fails its own request; other requests go on.
 *
 * <p>Owned by: engine thread.
 */
public final class OutputProcessor {
    private static final Logger LOG = System.getLogger(OutputProcessor.class.getName());

    private final EngineListener listener;
    private final RequestEnds ends;
    /** By sequence key; present from a request's first token to its end. */
    private final Map<Long, ClientStream> streams = new HashMap<>();

    private final Queue<PendingToken> pending = new ArrayDeque<>();

    /** Ends requests on behalf of the processor. */
    public interface RequestEnds {
        /** Ends a request whose last token has been delivered. */
        void finish(Sequence sequence, FinishReason reason, String text, String stopReason, long now);

        /** Ends a request because one of its callbacks threw. */
        void fail(Sequence sequence, String message);

        /** True once the client has received the request's last event. */
        boolean hasEnded(Sequence sequence);
    }

    /** What the client of one sequence has received so far. */
    private static final class ClientStream {
        private final StopMatcher stopMatcher;
        private long lastTokenNanos;

        ClientStream(Sequence sequence, long firstTokenNanos) {
            var sampling = sequence.request().sampling();
            this.stopMatcher = new StopMatcher(sampling.stop(), sampling.includeStop());
            this.lastTokenNanos = firstTokenNanos;
        }
    }

    /**
     * @param last whether the request has room for no further token
     * @param mayStop whether the token's text may complete a stop string: false below the request's min_tokens
     */
    private record PendingToken(
            Sequence sequence, Choice choice, boolean end, boolean last, boolean mayStop, boolean fromHost, long now) {}

    private record End(FinishReason reason, String text, String stopReason) {}

    /** Creates a processor that reports latencies to {@code listener} and ends requests through {@code ends}. */
    public OutputProcessor(EngineListener listener, RequestEnds ends) {
        this.listener = listener;
        this.ends = ends;
    }

    /** True when no token waits for {@link #process}. */
    public boolean isEmpty() {
        return pending.isEmpty();
    }

    /**
     * Queues the sequence's newest token for its client.
     *
     * @param end whether the token ends the request
     * @param fromHost whether the attention that led to the token read host KV
     * @param now when it was sampled
     */
    public void add(Sequence sequence, Choice choice, boolean end, boolean fromHost, long now) {
        boolean last = sequence.known() >= sequence.limit();
        boolean mayStop =
                sequence.outputLength() > sequence.request().sampling().minTokens();
        pending.add(new PendingToken(sequence, choice, end, last, mayStop, fromHost, now));
    }

    /** Frees what is kept for a sequence whose request has ended. */
    public void forget(Sequence sequence) {
        streams.remove(sequence.key());
    }

    /** Delivers all queued tokens. Tokens of requests that have ended are dropped. */
    public void process() {
        for (PendingToken token = pending.poll(); token != null; token = pending.poll()) {
            if (!ends.hasEnded(token.sequence())) {
                deliver(token);
            }
        }
    }

    private void deliver(PendingToken token) {
        Sequence sequence = token.sequence();
        Request request = sequence.request();
        int id = token.choice().token();
        Optional<End> end;
        String callback = "stop string matcher";
        try {
            StopMatcher stopMatcher = measure(sequence, token.now()).stopMatcher;
            callback = "text decoder";
            boolean hidden = token.end() && !request.sampling().includeStop();
            String decoded = hidden ? "" : request.decoder().append(id);
            callback = "stop string matcher";
            String text = stopMatcher.append(decoded, token.mayStop());
            callback = "event sink";
            request.sink().on(new TokenEvent.Token(id, text, token.choice().logprobs(), token.fromHost()));
            callback = "text decoder";
            end = end(token, stopMatcher);
        } catch (RuntimeException | Error e) {
            LOG.log(
                    Level.WARNING,
                    "The " + callback + " of request " + request.id() + " failed; this ends the request.",
                    e);
            ends.fail(sequence, "the request's " + callback + " failed: " + e + "; only this request has ended");
            return;
        }
        end.ifPresent(e -> ends.finish(sequence, e.reason(), e.text(), e.stopReason(), token.now()));
    }

    /** Reports the token's latency to the listener. */
    private ClientStream measure(Sequence sequence, long now) {
        ClientStream stream = streams.get(sequence.key());
        if (stream == null) {
            stream = new ClientStream(sequence, now);
            streams.put(sequence.key(), stream);
            listener.firstToken(sequence.request(), sequence.timings().firstTokenAt(now));
        } else {
            listener.nextToken(sequence.request(), now - stream.lastTokenNanos);
            stream.lastTokenNanos = now;
        }
        return stream;
    }

    /**
     * The end that the token brings about, with the text that the decoder still holds; empty when the request goes on.
     */
    private static Optional<End> end(PendingToken token, StopMatcher stopMatcher) {
        Sequence sequence = token.sequence();
        if (token.end()) {
            int id = token.choice().token();
            boolean asked = sequence.request().sampling().stopTokenIds().contains(id);
            String text = remainingText(token, stopMatcher);
            return Optional.of(new End(FinishReason.STOP, text, asked ? Integer.toString(id) : ""));
        }
        String matched = stopMatcher.matched();
        if (!matched.isEmpty()) {
            return Optional.of(new End(FinishReason.STOP, "", matched));
        }
        if (!token.last()) {
            return Optional.empty();
        }
        String text = remainingText(token, stopMatcher);
        matched = stopMatcher.matched();
        return Optional.of(new End(matched.isEmpty() ? FinishReason.LENGTH : FinishReason.STOP, text, matched));
    }

    /** The text that the decoder still holds; it may itself complete a stop string. */
    private static String remainingText(PendingToken last, StopMatcher stopMatcher) {
        String text = last.sequence().request().decoder().finish();
        return stopMatcher.append(text, last.mayStop()) + stopMatcher.finish();
    }
}
