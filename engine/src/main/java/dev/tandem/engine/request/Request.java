package dev.tandem.engine.request;

import dev.tandem.engine.sampling.PromptScorer;
import java.util.Optional;

/**
 * One generation: a prompt, how to continue it, and where its events go.
 *
 * <p>Owned by: any thread, immutable; the engine thread calls the decoder and the sink.
 *
 * @param id unique among live requests; cancellation names it
 * @param prompt token ids, at least one; the array is not copied and must not change
 * @param sampling how tokens are sampled and when generation ends
 * @param priority a lower value runs first, as if it had arrived earlier; 0 unless the engine schedules by priority
 * @param targets latency targets, which steer in which tier the request runs
 * @param caching with which other requests it shares the KV of equal prefixes
 * @param decoder turns tokens into text
 * @param sink receives the events
 * @param scorer receives the log-probabilities of the prompt; empty when nobody asks for them
 * @param trace the span that caused it; empty when it is not traced
 */
public record Request(
        String id,
        int[] prompt,
        SamplingParams sampling,
        int priority,
        LatencyTargets targets,
        PrefixCaching caching,
        TextDecoder decoder,
        TokenSink sink,
        Optional<PromptScorer> scorer,
        Optional<TraceParent> trace) {
    /** Creates a request that shares prefixes with all others without a salt. */
    public Request(
            String id,
            int[] prompt,
            SamplingParams sampling,
            int priority,
            LatencyTargets targets,
            TextDecoder decoder,
            TokenSink sink) {
        this(
                id,
                prompt,
                sampling,
                priority,
                targets,
                PrefixCaching.SHARED,
                decoder,
                sink,
                Optional.empty(),
                Optional.empty());
    }

    /** Creates a request without latency targets of its own. */
    public Request(
            String id, int[] prompt, SamplingParams sampling, int priority, TextDecoder decoder, TokenSink sink) {
        this(id, prompt, sampling, priority, LatencyTargets.NONE, decoder, sink);
    }

    /** Checks that the prompt is not empty. */
    public Request {
        if (prompt.length == 0) {
            throw RequestException.bad("prompt", "the prompt is empty; it needs at least one token");
        }
    }

    /** The same request with another choice of whom it shares prefixes with. */
    public Request withCaching(PrefixCaching next) {
        return new Request(id, prompt, sampling, priority, targets, next, decoder, sink, scorer, trace);
    }

    /** The same request with scores of its prompt, which computes all of it: the prefix cache has no logits. */
    public Request withScorer(PromptScorer next) {
        return new Request(
                id, prompt, sampling, priority, targets, PrefixCaching.OFF, decoder, sink, Optional.of(next), trace);
    }

    /** The same request as part of a trace, or of none. */
    public Request withTrace(Optional<TraceParent> next) {
        return new Request(id, prompt, sampling, priority, targets, caching, decoder, sink, scorer, next);
    }
}
