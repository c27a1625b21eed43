package dev.tandem.engine.kv;

/**
 * How much the prefix cache is used.
 *
 * @param queries tokens of sequences that have started on the GPU and may hit, so far
 * @param hits how many of them were not computed, because their KV was in the cache
 * @param cachedBlocks GPU blocks that hold the KV of a prefix and that no sequence refers to
 * @param evictions blocks whose prefix was dropped to make room, so far
 */
public record PrefixCacheUse(long queries, long hits, int cachedBlocks, long evictions) {}
