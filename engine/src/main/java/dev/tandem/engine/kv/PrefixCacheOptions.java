package dev.tandem.engine.kv;

/**
 * Whether and how {@link KvCache} shares the KV of equal prefixes.
 *
 * @param enabled whether it does
 * @param seed of the hashes, so that no client can foresee collisions
 * @param hashMask bits of a hash that are used; collisions cost time only
 * @param events whether what enters and leaves the cache is recorded
 */
public record PrefixCacheOptions(boolean enabled, long seed, long hashMask, boolean events) {
    /** No KV is shared. */
    public static final PrefixCacheOptions OFF = new PrefixCacheOptions(false, 0, -1);

    /** Creates options without a record of what enters and leaves the cache. */
    public PrefixCacheOptions(boolean enabled, long seed, long hashMask) {
        this(enabled, seed, hashMask, false);
    }

    /** KV is shared, and hashes have 64 bits. */
    public static PrefixCacheOptions on(long seed) {
        return new PrefixCacheOptions(true, seed, -1);
    }

    /** The same, with or without a record of what enters and leaves the cache. */
    public PrefixCacheOptions withEvents(boolean next) {
        return new PrefixCacheOptions(enabled, seed, hashMask, next);
    }
}
