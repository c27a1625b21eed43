package dev.tandem.engine.kv;

/**
 * Which tokens' KV a sequence holds when all layers have the same sliding window: blocks behind the window of the next
 * token are freed, and a long prompt has blocks for its next chunk only.
 *
 * @param tokens that a token attends to at most, itself included; 0 without a window: then all KV is held
 * @param unit tokens that are freed at a time: those of a host block. So a block is held on one tier where it would be
 *     on the other, and a copy between the tiers has whole host blocks. CUDA kernels read as many tokens at a time
 * @param maxChunk max tokens of a sequence that a step computes
 */
public record KvWindow(int tokens, int unit, int maxChunk) {
    /** All KV is held. */
    public static final KvWindow NONE = new KvWindow(0, 1, 1);

    /** The same for steps that compute at most {@code rows} tokens of a sequence. */
    public KvWindow withMaxChunk(int rows) {
        return new KvWindow(tokens, unit, Math.min(maxChunk, rows));
    }

    /** Whether KV behind a window is freed. */
    public boolean slides() {
        return tokens > 0;
    }

    /** The first token whose KV is held once {@code computed} tokens are computed. */
    public int start(int computed) {
        return tokens == 0 ? 0 : Math.max(0, computed - tokens + 1) / unit * unit;
    }

    /** The position after the last token that has a block before the next step. */
    public int end(int computed, int length) {
        int start = start(computed);
        return start + Math.min(length - start, maxHeld());
    }

    /** Max tokens whose KV a sequence holds at a time. */
    public int maxHeld() {
        return tokens == 0 ? Integer.MAX_VALUE : tokens - 1 + unit - 1 + maxChunk;
    }

    /** Max tokens whose KV a sequence holds at a time once its prompt is computed. */
    public int maxDecoding() {
        return tokens == 0 ? Integer.MAX_VALUE : tokens + unit - 1;
    }
}
