package dev.tandem.engine.observe;

/**
 * One step, in numbers.
 *
 * @param startedNanos when the scheduler began, by the engine's clock
 * @param prefillTokens rows of chunks that do not decode
 * @param hostTokens decode rows whose KV was read from host blocks
 * @param planNanos time of the scheduler
 * @param executeNanos from submission to result
 */
public record StepRecord(
        long step,
        long startedNanos,
        int prefillTokens,
        int decodeTokens,
        int hostTokens,
        int swaps,
        long planNanos,
        long executeNanos) {}
