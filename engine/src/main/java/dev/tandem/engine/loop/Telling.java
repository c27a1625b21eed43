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

    /** @param mayStop whether its text may complete a stop string: not before the request's minimum of tokens */
    private record Untold(Sequence sequence, Choice choice, boolean end, boolean mayStop, boolean fromHost, long now) {}

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
     * Takes the sequence's newest token.
     *
     * @param end whether the token ends the request
     * @param now when it was sampled
     */
    void add(Sequence sequence, Choice choice, boolean end, boolean fromHost, long now) {
        boolean mayStop = sequence.outputLength() > sequence.request().sampling().minTokens();
        untold.add(new Untold(sequence, choice, end, mayStop, fromHost, now));
    }

    void forget(Sequence sequence) {
        lastTokenNanos.remove(sequence.key());
    }

    /** Tells clients of the tokens that they have not heard of. */
    void tell() {
        for (Untold token = untold.poll(); token != null; token = untold.poll()) {
            Sequence sequence = token.sequence();
            measure(sequence, token.now());
            boolean hidden = token.end() && !sequence.request().sampling().includeStop();
            String decoded = hidden ? "" : sequence.request().decoder().append(token.choice().token());
            String text = sequence.stopMatcher().append(decoded, token.mayStop());
            sequence.request().sink().on(new TokenEvent.Token(token.choice().token(), text, token.choice().logprobs(), token.fromHost()));
            endIfDone(token);
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

    private void endIfDone(Untold token) {
        Sequence sequence = token.sequence();
        long now = token.now();
        if (token.end()) {
            int id = token.choice().token();
            boolean asked = sequence.request().sampling().stopTokenIds().contains(id);
            ending.finish(sequence, FinishReason.STOP, releaseRest(sequence, token), asked ? Integer.toString(id) : "", now);
        } else if (!sequence.stopMatcher().matched().isEmpty()) {
            ending.finish(sequence, FinishReason.STOP, "", sequence.stopMatcher().matched(), now);
        } else if (sequence.known() >= sequence.limit()) {
            String rest = releaseRest(sequence, token);
            String matched = sequence.stopMatcher().matched();
            ending.finish(sequence, matched.isEmpty() ? FinishReason.LENGTH : FinishReason.STOP, rest, matched, now);
        }
    }

    /** The decoder's rest may itself complete a stop string. */
    private static String releaseRest(Sequence sequence, Untold last) {
        String rest = sequence.stopMatcher().append(sequence.request().decoder().finish(), last.mayStop());
        return rest + sequence.stopMatcher().finish();
    }
}
