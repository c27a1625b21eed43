package dev.tandem.engine.observe;

import dev.tandem.engine.kv.BlockPool;
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
     * KV blocks of one tier.
     *
     * @param blocks size of the pool
     * @param used blocks that hold KV of sequences, rounded up
     */
    public record Pool(int blocks, int used) {
        private static Pool of(SchedulerState state, KvTier tier) {
            BlockPool pool = state.kv().pool(tier);
            KvLayout layout = state.kv().layout();
            return new Pool(layout.blocks(pool.size()), layout.blocks(pool.used()));
        }
    }

    /**
     * The state's snapshot.
     *
     * @param waiting clients' requests in the admission queue, and accepted ones that have not started
     * @param notStarted accepted requests that have not been in a step
     */
    public static EngineStats of(SchedulerState state, int waiting, int notStarted, String hostLost) {
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
                Pool.of(state, KvTier.GPU),
                Pool.of(state, KvTier.HOST),
                state.preemptions(),
                state.kv().prefixCacheUse(),
                hostLost);
    }
}
