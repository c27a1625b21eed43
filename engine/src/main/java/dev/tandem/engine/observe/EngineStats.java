package dev.tandem.engine.observe;

import dev.tandem.engine.kv.BlockPool;
import dev.tandem.engine.kv.BlockState;
import dev.tandem.engine.kv.KvLayout;
import dev.tandem.engine.kv.KvTier;
import dev.tandem.engine.kv.PrefixCacheUse;
import dev.tandem.engine.schedule.SchedulerState;

/**
 * Queues and KV pools after a turn of the engine loop. Blocks are of all layers, as {@link KvLayout#blocks} counts
 * them.
 *
 * @param requests live requests by what they wait for
 * @param gpu KV blocks of the GPU
 * @param host KV blocks of the host
 * @param preemptions times that a sequence lost its blocks to others
 * @param prefixCache use of the prefix cache
 * @param hostLost why the host no longer computes attention; empty while it does
 */
public record EngineStats(
        Requests requests, Pool gpu, Pool host, long preemptions, PrefixCacheUse prefixCache, String hostLost) {
    /**
     * Live requests by what they wait for.
     *
     * @param waiting clients' requests that have not been in a step
     * @param dropped requests whose KV was dropped and is to be computed again
     * @param running requests in the last step
     * @param swapped requests that hold KV and were not in the last step
     * @param inFlight requests whose offloaded token is between two layers
     */
    public record Requests(int waiting, int dropped, int running, int swapped, int inFlight) {}

    /**
     * KV blocks of one tier. Their states are counted in pages, of which a block has one per group of layers.
     *
     * @param blocks size of the pool
     * @param pagesPerBlock groups of layers
     * @param freePages as {@link BlockState#FREE}
     * @param privatePages as {@link BlockState#PRIVATE}
     * @param heldPages as {@link BlockState#HELD}
     * @param cachedPages as {@link BlockState#CACHED}
     * @param quarantinedPages as {@link BlockState#QUARANTINED}
     * @param copiedBytes KV that plans have copied to the tier from the other one
     */
    public record Pool(
            int blocks,
            int pagesPerBlock,
            int freePages,
            int privatePages,
            int heldPages,
            int cachedPages,
            int quarantinedPages,
            long copiedBytes) {
        private static Pool of(SchedulerState state, KvTier tier, long kvBytesPerToken) {
            BlockPool pool = state.kv().pool(tier);
            KvLayout layout = state.kv().layout();
            return new Pool(
                    layout.blocks(pool.size()),
                    layout.groups(),
                    pool.count(BlockState.FREE),
                    pool.count(BlockState.PRIVATE),
                    pool.count(BlockState.HELD),
                    pool.count(BlockState.CACHED),
                    pool.count(BlockState.QUARANTINED),
                    state.copiedTokens(tier) * kvBytesPerToken / layout.groups());
        }

        /** Blocks that hold KV of sequences, rounded up. */
        public int used() {
            return Math.ceilDiv(privatePages + heldPages, pagesPerBlock);
        }

        /** Blocks in a state. A page counts as its part of a block, so those of all states are {@link #blocks}. */
        public double blocks(BlockState state) {
            int pages = switch (state) {
                case FREE -> freePages;
                case PRIVATE -> privatePages;
                case HELD -> heldPages;
                case CACHED -> cachedPages;
                case QUARANTINED -> quarantinedPages;
            };
            return (double) pages / pagesPerBlock;
        }
    }

    /**
     * The state's snapshot.
     *
     * @param waiting clients' requests in the admission queue, and accepted ones that have not started
     * @param notStarted accepted requests that have not been in a step
     * @param kvBytesPerToken in all layers
     */
    public static EngineStats of(
            SchedulerState state, int waiting, int notStarted, long kvBytesPerToken, String hostLost) {
        int inFlight = state.inFlight().size();
        int holding = state.gpu().size() + state.host().size() + inFlight;
        Requests requests = new Requests(
                waiting,
                state.waiting().size() - notStarted,
                state.scheduled(),
                Math.max(0, holding - state.scheduled()),
                inFlight);
        return new EngineStats(
                requests,
                Pool.of(state, KvTier.GPU, kvBytesPerToken),
                Pool.of(state, KvTier.HOST, kvBytesPerToken),
                state.preemptions(),
                state.kv().prefixCacheUse(),
                hostLost);
    }
}
