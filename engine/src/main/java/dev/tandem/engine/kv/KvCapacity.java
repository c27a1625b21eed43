package dev.tandem.engine.kv;

import dev.tandem.engine.request.Sequence;
import java.util.List;

/** Read access to the KV cache: block sizes and free blocks. Scheduling decisions use it and grant nothing. */
public interface KvCapacity {
    /** The blocks of a tier. */
    BlockPool pool(KvTier tier);

    /** Tokens of one block of the tier. */
    int blockTokens(KvTier tier);

    /** Blocks that hold {@code tokens} tokens in the tier, in the layers of one group. */
    int blocksFor(KvTier tier, int tokens);

    /** Which part of its KV a sequence holds, by group of layers. */
    KvLayout layout();

    /** How many tokens attention reads. */
    AttentionSpan span();

    /**
     * Blocks that a sequence holds in the tier for its next step, in all groups, with {@code computed} of its tokens
     * computed.
     */
    int held(KvTier tier, int computed, int length);

    /** Max blocks that a sequence of {@code length} tokens holds in the tier at a time, in all groups. */
    int maxHeld(KvTier tier, int length);

    /** [groups] index of the first block that a sequence holds in the tier; not to be changed. */
    int[] firstHeld(KvTier tier, int computed);

    /** How many GPU blocks a step borrows to offload prefills. */
    PrefillStaging staging();

    /**
     * Blocks that the sequence lacks in the tier where it is, in all groups, for its next step with {@code tokens}
     * tokens in all.
     */
    int missing(Sequence sequence, int tokens);

    /** Whether sequences with equal prefixes share KV. */
    boolean cachesPrefixes();

    /**
     * The blocks of a tier that hold the KV of a sequence's first tokens, in token order; those of all groups follow
     * each other. The array is not to be changed.
     *
     * <p>Of a waiting sequence they hold at most all tokens but the last on the GPU, and all but two on the host: what
     * is left must be a prefill there. Of a sequence that holds KV in the other tier, at most its computed tokens.
     */
    int[] hit(Sequence sequence, KvTier tier);

    /** Max references to the blocks of a tier beyond the first of each. */
    long maxShared(KvTier tier);

    /** Sequences that compute prompts which others may hit once they are registered; not to be changed. */
    List<Sequence> pending();

    /**
     * Whether a sequence that is pending, or about to start in {@code tier}, will register the first {@code tokens}
     * tokens of a waiting one, or more of them.
     */
    boolean willRegister(Sequence pending, KvTier tier, Sequence waiting, int tokens);

    /** How much the prefix cache is used. */
    PrefixCacheUse prefixCacheUse();
}
