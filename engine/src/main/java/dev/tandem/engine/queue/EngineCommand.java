package dev.tandem.engine.queue;

import dev.tandem.engine.request.Request;
import dev.tandem.engine.sampling.Adjustments;
import dev.tandem.engine.sampling.Grammar;
import dev.tandem.engine.sampling.GrammarMatcher;
import java.util.Optional;

/** A message to the engine thread. */
public sealed interface EngineCommand {
    /**
     * Asks the engine to accept a request.
     *
     * @param adjustments made by the submitting thread, because a penalised prompt may have 100,000 tokens to list
     * @param matcher of the request's grammar, made by the submitting thread; the engine closes it
     * @param arrivedNanos when it was submitted, by the engine's clock
     */
    record Submit(Request request, Adjustments adjustments, Optional<GrammarMatcher> matcher, long arrivedNanos)
            implements EngineCommand {
        static Submit of(Request request, long arrivedNanos) {
            return new Submit(
                    request,
                    Adjustments.of(request),
                    request.sampling().grammar().map(Grammar::matcher),
                    arrivedNanos);
        }

        /** The same command with another time. */
        Submit at(long nanos) {
            return new Submit(request, adjustments, matcher, nanos);
        }

        /** Frees what the submitting thread made, for a request that is not accepted. */
        public void discard() {
            matcher.ifPresent(GrammarMatcher::close);
        }
    }

    /** Asks the engine to end a request. */
    record Cancel(String requestId) implements EngineCommand {}

    /** Asks the engine to empty its prefix cache. */
    record ResetPrefixCache() implements EngineCommand {}
}
