package dev.tandem.engine.loop;

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
 * What clients have not heard of yet: tokens that the engine has settled, in order. Telling decodes text, and text may
 * end a request. So may a callback of the request that throws: then the request fails, and the other requests are told
 * as ever.
 *
 * <p>Owned by: engine thread.
 */
final class OutputProcessor {
    private static final Logger LOG = System.getLogger(OutputProcessor.class.getName());

    private final EngineListener listener;
    private final Ending ending;
    private final Map<Long, Long> lastTokenNanos = new HashMap<>();
    private final Queue<PendingToken> pending = new ArrayDeque<>();

    /** @param mayStop whether its text may complete a stop string: not before the request's minimum of tokens */
    private record PendingToken(
            Sequence sequence, Choice choice, boolean end, boolean mayStop, boolean fromHost, long now) {}

    /** Ends requests. */
    interface Ending {
        /** Its last token has been told. */
        void finish(Sequence sequence, FinishReason reason, String text, String stopReason, long now);

        /** One of its callbacks threw. */
        void fail(Sequence sequence, String message);

        /** Whether its client has been told of the end. */
        boolean hasEnded(Sequence sequence);
    }

    private record End(FinishReason reason, String text, String stopReason) {}

    OutputProcessor(EngineListener listener, Ending ending) {
        this.listener = listener;
        this.ending = ending;
    }

    boolean isEmpty() {
        return pending.isEmpty();
    }

    /**
     * Takes the sequence's newest token.
     *
     * @param end whether the token ends the request
     * @param now when it was sampled
     */
    void add(Sequence sequence, Choice choice, boolean end, boolean fromHost, long now) {
        boolean mayStop =
                sequence.outputLength() > sequence.request().sampling().minTokens();
        pending.add(new PendingToken(sequence, choice, end, mayStop, fromHost, now));
    }

    void forget(Sequence sequence) {
        lastTokenNanos.remove(sequence.key());
    }

    /** Tells clients of the tokens that they have not heard of. */
    void process() {
        for (PendingToken token = pending.poll(); token != null; token = pending.poll()) {
            if (!ending.hasEnded(token.sequence())) {
                process(token);
            }
        }
    }

    private void process(PendingToken token) {
        Sequence sequence = token.sequence();
        Request request = sequence.request();
        int id = token.choice().token();
        measure(sequence, token.now());
        Optional<End> end;
        String callback = "text decoder";
        try {
            boolean hidden = token.end() && !request.sampling().includeStop();
            String decoded = hidden ? "" : request.decoder().append(id);
            callback = "stop string matcher";
            String text = sequence.stopMatcher().append(decoded, token.mayStop());
            callback = "event sink";
            request.sink().on(new TokenEvent.Token(id, text, token.choice().logprobs(), token.fromHost()));
            callback = "text decoder";
            end = end(token);
        } catch (RuntimeException | Error e) {
            LOG.log(
                    Level.WARNING,
                    "the " + callback + " of request " + request.id() + " failed, which ends the request",
                    e);
            ending.fail(sequence, "the request's " + callback + " failed: " + e + "; only this request has ended");
            return;
        }
        end.ifPresent(e -> ending.finish(sequence, e.reason(), e.text(), e.stopReason(), token.now()));
    }

    private void measure(Sequence sequence, long now) {
        Long previous = lastTokenNanos.put(sequence.key(), now); // forgotten when the last token is told
        if (previous == null) {
            listener.firstToken(sequence.request(), sequence.firstTokenAt(now));
        } else {
            listener.nextToken(sequence.request(), now - previous);
        }
    }

    /** What the token ends, which takes the rest of the text from the decoder. */
    private static Optional<End> end(PendingToken token) {
        Sequence sequence = token.sequence();
        String matched = sequence.stopMatcher().matched();
        if (token.end()) {
            int id = token.choice().token();
            boolean asked = sequence.request().sampling().stopTokenIds().contains(id);
            return Optional.of(
                    new End(FinishReason.STOP, releaseRest(sequence, token), asked ? Integer.toString(id) : ""));
        }
        if (!matched.isEmpty()) {
            return Optional.of(new End(FinishReason.STOP, "", matched));
        }
        if (sequence.known() < sequence.limit()) {
            return Optional.empty();
        }
        String rest = releaseRest(sequence, token);
        matched = sequence.stopMatcher().matched();
        return Optional.of(new End(matched.isEmpty() ? FinishReason.LENGTH : FinishReason.STOP, rest, matched));
    }

    /** The decoder's rest may itself complete a stop string. */
    private static String releaseRest(Sequence sequence, PendingToken last) {
        String rest = sequence.stopMatcher().append(sequence.request().decoder().finish(), last.mayStop());
        return rest + sequence.stopMatcher().finish();
    }
}
