package dev.tandem.engine.kv;

import dev.tandem.engine.request.Sequence;

/** Read access to the KV cache: block sizes and free blocks. Scheduling decisions use it and grant nothing. */
public interface KvCapacity {
    /** The blocks of a tier. */
    BlockPool pool(KvTier tier);

    /** Tokens of one block of the tier. */
    int blockTokens(KvTier tier);

    /** Blocks that hold {@code tokens} tokens in the tier. */
    int blocksFor(KvTier tier, int tokens);

    /** How many GPU blocks a step borrows to offload prefills. */
    PrefillStaging staging();

    /** Blocks that the sequence lacks to hold {@code tokens} tokens in the tier where it is. */
    int missing(Sequence sequence, int tokens);

    /** Whether sequences with equal prefixes share KV. */
    boolean cachesPrefixes();

    /**
     * The GPU blocks that hold the KV of a waiting sequence's first tokens, in token order; the array is not to be
     * changed. Sequences that start on the GPU take all of them or none.
     */
    int[] hit(Sequence waiting);

    /** Max references to GPU blocks beyond the first of each. */
    long maxShared();

    /** How much the prefix cache is used. */
    PrefixCacheUse prefixCacheUse();
}
