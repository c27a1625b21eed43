package dev.tandem.engine.request;

import java.util.List;

/**
 * What a request cost: tokens, times and preemptions. Times are in nanoseconds of the engine's clock; 0 for a phase
 * that was not reached.
 *
 * @param promptTokens tokens of the prompt
 * @param completionTokens output tokens
 * @param queued arrival to first step
 * @param timeToFirstToken arrival to first token
 * @param total arrival to end
 * @param preemptions times the request lost its KV blocks to others
 * @param hostTokens output tokens whose attention read host KV
 * @param cachedTokens prompt tokens whose KV was in the prefix cache when the request first started
 * @param hostCachedTokens how many of them were found in host blocks
 * @param moves where its KV was, if the request is traced; at most the first 64 moves
 */
public record Usage(
        int promptTokens,
        int completionTokens,
        long queued,
        long timeToFirstToken,
        long total,
        int preemptions,
        int hostTokens,
        int cachedTokens,
        int hostCachedTokens,
        List<KvMove> moves) {
    /** The usage of a sequence that ends now. */
    public static Usage of(Sequence sequence, long now) {
        SequenceTimings timings = sequence.timings();
        return new Usage(
                sequence.request().prompt().length,
                sequence.outputLength(),
                timings.queued(now),
                timings.timeToFirstToken(),
                now - timings.arrivedNanos(),
                sequence.tiers().preemptions(),
                sequence.tiers().hostTokens(),
                sequence.cachedTokens(),
                sequence.hostCachedTokens(),
                sequence.tiers().moves());
    }
}
