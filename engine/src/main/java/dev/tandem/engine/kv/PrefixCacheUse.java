package dev.tandem.engine.kv;

/**
 * How much the prefix cache is used. Counts are so far.
 *
 * @param queries tokens of sequences that have started and may hit
 * @param gpuHits how many of them were read in GPU blocks where they were
 * @param hostHits how many of them were read in host blocks where they were
 * @param copied how many of them were copied from the other tier
 * @param gpu the cache in GPU blocks
 * @param host the cache in host blocks
 * @param demotions host blocks to which prefixes of GPU blocks were copied, before these are needed
 */
public record PrefixCacheUse(
        long queries, long gpuHits, long hostHits, Copied copied, Tier gpu, Tier host, long demotions) {
    /** Of a cache that shares no KV. */
    static final PrefixCacheUse NONE = new PrefixCacheUse(0, 0, 0, new Copied(0, 0), new Tier(0, 0), new Tier(0, 0), 0);

    /**
     * Hits that were copied, in tokens.
     *
     * @param toGpu from host blocks
     * @param toHost from GPU blocks
     */
    public record Copied(long toGpu, long toHost) {}

    /**
     * The cache in the blocks of one tier.
     *
     * <p>Blocks are of all layers, as {@link KvLayout#blocks} counts them.
     *
     * @param cachedBlocks blocks that hold the KV of a prefix and that no sequence refers to, rounded down
     * @param evictions blocks whose prefix was dropped to make room
     */
    public record Tier(int cachedBlocks, long evictions) {
        /** @param groups pages per block; a page is evicted with the others of its block, which counts once */
        static Tier of(BlockPool pool, int groups) {
            return new Tier(pool.cached() / groups, pool.evictions());
        }
    }

    /** Tokens that were not computed, because their KV was in the cache. */
    public long hits() {
        return foundOnGpu() + foundOnHost();
    }

    /** Hits that were copied from the other tier. */
    public long copiedHits() {
        return copied.toGpu + copied.toHost;
    }

    /** Hits whose KV was in GPU blocks, wherever it was then read. */
    public long foundOnGpu() {
        return gpuHits + copied.toHost;
    }

    /** Hits whose KV was in host blocks, wherever it was then read. */
    public long foundOnHost() {
        return hostHits + copied.toGpu;
    }
}
