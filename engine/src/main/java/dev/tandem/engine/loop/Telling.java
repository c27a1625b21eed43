package dev.tandem.engine.loop;

import dev.tandem.engine.observe.EngineListener;
import dev.tandem.engine.request.FinishReason;
import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.request.TokenEvent;
import dev.tandem.engine.sample.Choice;
import java.util.ArrayDeque;
import java.util.HashMap;
import java.util.Map;
import java.util.Queue;

/**
 * What clients have not heard of yet: tokens that the engine has settled, in order. Telling decodes text, and text may end a request.
 *
 * <p>Owned by: engine thread.
 */
final class Telling {
    private final EngineListener listener;
    private final Ending ending;
    private final Map<Long, Long> lastTokenNanos = new HashMap<>();
    private final Queue<Untold> untold = new ArrayDeque<>();

    private record Untold(Sequence sequence, Choice choice, boolean end, boolean fromHost, long now) {}

    /** Ends a request whose last token has been told. */
    interface Ending {
        void finish(Sequence sequence, FinishReason reason, String text, String stopReason, long now);
    }

    Telling(EngineListener listener, Ending ending) {
        this.listener = listener;
        this.ending = ending;
    }

    boolean isEmpty() {
        return untold.isEmpty();
    }

    /**
     * @param end whether the token ends the request
     * @param now when it was sampled
     */
    void add(Sequence sequence, Choice choice, boolean end, boolean fromHost, long now) {
        untold.add(new Untold(sequence, choice, end, fromHost, now));
    }

    void forget(Sequence sequence) {
        lastTokenNanos.remove(sequence.key());
    }

    /** Tells clients of the tokens that they have not heard of. */
    void tell() {
        for (Untold token = untold.poll(); token != null; token = untold.poll()) {
            Sequence sequence = token.sequence();
            measure(sequence, token.now());
            String decoded = token.end() ? "" : sequence.request().decoder().append(token.choice().token());
            String text = sequence.stopMatcher().append(decoded);
            sequence.request().sink().on(new TokenEvent.Token(token.choice().token(), text, token.choice().logprobs(), token.fromHost()));
            endIfDone(sequence, token.choice().token(), token.end(), token.now());
        }
    }

    private void measure(Sequence sequence, long now) {
        Long previous = lastTokenNanos.put(sequence.key(), now); // forgotten when the last token is told
        if (previous == null) {
            listener.firstToken(sequence.request(), sequence.firstTokenAt(now));
        } else {
            listener.nextToken(sequence.request(), now - previous);
        }
    }

    private void endIfDone(Sequence sequence, int token, boolean end, long now) {
        if (end) {
            boolean asked = sequence.request().sampling().stopTokenIds().contains(token);
            ending.finish(sequence, FinishReason.STOP, releaseRest(sequence), asked ? Integer.toString(token) : "", now);
        } else if (!sequence.stopMatcher().matched().isEmpty()) {
            ending.finish(sequence, FinishReason.STOP, "", sequence.stopMatcher().matched(), now);
        } else if (sequence.known() >= sequence.limit()) {
            String rest = releaseRest(sequence);
            String matched = sequence.stopMatcher().matched();
            ending.finish(sequence, matched.isEmpty() ? FinishReason.LENGTH : FinishReason.STOP, rest, matched, now);
        }
    }

    /** The decoder's rest may itself complete a stop string. */
    private static String releaseRest(Sequence sequence) {
        String rest = sequence.stopMatcher().append(sequence.request().decoder().finish());
        return rest + sequence.stopMatcher().finish();
    }
}
