package dev.tandem.engine.request;

/**
 * One generation: a prompt, how to continue it, and whom to tell.
 *
 * @param id unique among live requests; cancellation names it
 * @param prompt token ids, at least one; the array is not copied and must not change
 * @param priority lower runs first, as if it had arrived earlier; 0 unless the engine schedules by priority
 * @param targets steer where the request runs
 */
public record Request(
        String id,
        int[] prompt,
        SamplingParams sampling,
        int priority,
        LatencyTargets targets,
        TextDecoder decoder,
        TokenSink sink) {
    /** Without latency targets of its own. */
    public Request(
            String id, int[] prompt, SamplingParams sampling, int priority, TextDecoder decoder, TokenSink sink) {
        this(id, prompt, sampling, priority, LatencyTargets.NONE, decoder, sink);
    }

    public Request {
        if (prompt.length == 0) {
            throw RequestException.bad("prompt", "the prompt is empty; it needs at least one token");
        }
    }
}
