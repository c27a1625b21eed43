package dev.tandem.engine.kv;

/**
 * A copy of one sequence's KV in the layers of one group, or of the KV of a cached prefix, from one tier to the other,
 * before the step's layers run.
 *
 * <p>The same plan may grant the source blocks to other sequences: swaps run in the plan's order, and no token of the
 * step is written before all of them are done.
 *
 * @param sequence key of the sequence; {@link #NO_SEQUENCE} for a cached prefix
 * @param from tier of the source
 * @param fromBlocks source blocks, in token order
 * @param to tier of the destination
 * @param toBlocks destination blocks, in token order
 * @param tokens how many tokens of KV the blocks hold
 */
public record Swap(long sequence, KvTier from, int[] fromBlocks, KvTier to, int[] toBlocks, int tokens) {
    /** Stands for the sequence of a copy that is not made for one. */
    public static final long NO_SEQUENCE = -1;
}
