package dev.tandem.engine.request;

/**
 * What a request cost. Times in nanoseconds of the engine's clock; 0 where a phase was not reached.
 *
 * @param queued arrival to first scheduling
 * @param timeToFirstToken arrival to first token
 * @param total arrival to end
 * @param hostTokens output tokens whose attention was computed from host KV
 */
public record Usage(
        int promptTokens,
        int completionTokens,
        long queued,
        long timeToFirstToken,
        long total,
        int preemptions,
        int hostTokens) {}
