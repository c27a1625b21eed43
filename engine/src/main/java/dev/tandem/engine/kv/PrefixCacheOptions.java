package dev.tandem.engine.kv;

/**
 * Whether and how {@link KvCache} shares the KV of equal prefixes.
 *
 * @param enabled whether it does
 * @param seed of the hashes, so that no client can foresee collisions
 * @param hashMask bits of a hash that are used; collisions cost time only
 */
public record PrefixCacheOptions(boolean enabled, long seed, long hashMask) {
    /** No KV is shared. */
    public static final PrefixCacheOptions OFF = new PrefixCacheOptions(false, 0, -1);

    /** KV is shared, and hashes have 64 bits. */
    public static PrefixCacheOptions on(long seed) {
        return new PrefixCacheOptions(true, seed, -1);
    }
}
