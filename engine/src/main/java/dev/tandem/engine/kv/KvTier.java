package dev.tandem.engine.kv;

/**
 * A tier of memory that holds KV blocks. On the CPU executor both tiers are host memory, so that strategies can be
 * tested.
 */
public enum KvTier {
    /** GPU memory. */
    GPU,
    /** Host memory, which the CPU reads and the GPU reaches over the link. */
    HOST;

    /** The other tier. */
    public KvTier other() {
        return this == GPU ? HOST : GPU;
    }
}
