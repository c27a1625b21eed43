package dev.tandem.engine.schedule;

import dev.tandem.engine.kv.KvCapacity;
import dev.tandem.engine.kv.KvTier;
import dev.tandem.engine.request.Sequence;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * The KV blocks of one draft: how many are free once the draft is carried out, and which sequences it moves or drops.
 *
 * <p>It counts only; {@link PlanCommitter} grants and frees the blocks.
 *
 * <p>Owned by: engine thread.
 */
final class BlockLedger {
    private final SchedulerState state;
    private final KvCapacity kv;
    private int freeGpu;
    private int freeBeforeMoves;
    private int freeHost;
    private int gpuSequences;
    private final List<Sequence> drops = new ArrayList<>();
    private final List<Sequence> outs = new ArrayList<>();
    private final List<Sequence> ins = new ArrayList<>();
    private final Set<Sequence> moved = new HashSet<>();
    private final List<Sequence> gpuStarts = new ArrayList<>();
    private final List<Sequence> hostStarts = new ArrayList<>();
    /** Null until {@link #roomToGrow} asks, and again after a move that changes it. */
    private @Nullable KvDemandForecast gpuForecast;

    private @Nullable KvDemandForecast hostForecast;

    BlockLedger(SchedulerState state) {
        this.state = state;
        this.kv = state.kv();
        this.freeGpu = kv.pool(KvTier.GPU).free();
        this.freeBeforeMoves = freeGpu;
        this.freeHost = kv.pool(KvTier.HOST).free();
        this.gpuSequences = state.gpu().size();
    }

    int freeGpu() {
        return freeGpu;
    }

    /** GPU blocks that the step may borrow: they stay free, and no move of the step reads them. */
    int borrowable() {
        return Math.min(freeGpu, freeBeforeMoves);
    }

    int freeHost() {
        return freeHost;
    }

    int gpuSequences() {
        return gpuSequences;
    }

    int hostSequences() {
        int left = 0;
        for (Sequence sequence : drops) {
            left += sequence.table().tier() == KvTier.HOST ? 1 : 0;
        }
        return state.host().size() + state.inFlight().size() + outs.size() + hostStarts.size() - ins.size() - left;
    }

    /** Sequences moved from the GPU to the host, in the order of the moves. */
    List<Sequence> outs() {
        return outs;
    }

    /** Sequences moved from the host to the GPU, in the order of the moves. */
    List<Sequence> ins() {
        return ins;
    }

    /** Sequences whose KV is dropped and computed again. */
    List<Sequence> drops() {
        return drops;
    }

    /** Blocks that the sequence lacks for all of its tokens, after the draft's moves. */
    int missing(Sequence sequence) {
        if (!moved.isEmpty() && moved.contains(sequence)) {
            KvTier tier = ins.contains(sequence) ? KvTier.GPU : KvTier.HOST;
            return kv.blocksFor(tier, sequence.length()) - kv.blocksFor(tier, sequence.computed());
        }
        return kv.missing(sequence, sequence.length());
    }

    boolean fitsHost(Sequence sequence) {
        return kv.blocksFor(KvTier.HOST, sequence.limit())
                <= kv.pool(KvTier.HOST).size();
    }

    boolean hostHasRoomFor(Sequence sequence) {
        return kv.blocksFor(KvTier.HOST, sequence.length()) <= freeHost;
    }

    /**
     * Whether a tier has room for one more sequence until that sequence ends, by {@link KvDemandForecast}. An empty
     * tier has: it holds any sequence that was accepted.
     */
    boolean roomToGrow(KvTier tier, Sequence candidate) {
        KvDemandForecast forecast = forecast(tier);
        int free = tier == KvTier.GPU ? freeGpu : freeHost;
        return forecast.isEmpty() || kv.blocksFor(tier, forecast.maxWith(candidate)) <= free;
    }

    /** Max tokens that the host's sequences will hold at a time with one more, by {@link KvDemandForecast}. */
    long maxHostTokens(Sequence candidate) {
        KvDemandForecast forecast = forecast(KvTier.HOST);
        return forecast.held() + forecast.maxWith(candidate);
    }

    private KvDemandForecast forecast(KvTier tier) {
        if (tier == KvTier.GPU) {
            if (gpuForecast == null) {
                gpuForecast = forecastOf(state.gpu(), ins, gpuStarts);
            }
            return gpuForecast;
        }
        if (hostForecast == null) {
            hostForecast = forecastOf(state.host(), outs, hostStarts);
            state.inFlight().forEach(hostForecast::add);
        }
        return hostForecast;
    }

    /** Of the sequences that hold blocks in a tier once the draft is carried out. */
    private KvDemandForecast forecastOf(Iterable<Sequence> holders, List<Sequence> arrivals, List<Sequence> starts) {
        KvDemandForecast forecast = new KvDemandForecast(state.outputs());
        for (Sequence holder : holders) {
            if (!moved.contains(holder) && !drops.contains(holder)) {
                forecast.add(holder);
            }
        }
        arrivals.forEach(forecast::add);
        starts.forEach(forecast::add);
        return forecast;
    }

    /**
     * Takes a sequence's GPU blocks: it moves to the host if {@code toHost} and the host has room, else it is dropped.
     * A half-computed prompt is always dropped, because no decode needs its KV yet.
     */
    void evict(Sequence sequence, boolean toHost) {
        gpuForecast = null;
        hostForecast = null;
        gpuSequences--;
        freeGpu += sequence.table().count();
        if (toHost && sequence.remaining() == 1 && hostHasRoomFor(sequence)) {
            freeHost -= kv.blocksFor(KvTier.HOST, sequence.computed());
            outs.add(sequence);
            moved.add(sequence);
        } else {
            freeBeforeMoves += sequence.table().count();
            drops.add(sequence);
        }
    }

    /** Drops a host sequence's KV. */
    void dropFromHost(Sequence sequence) {
        hostForecast = null;
        freeHost += sequence.table().count();
        drops.add(sequence);
    }

    /** Moves a host sequence to the GPU; the caller has checked that there is room. */
    void bringIn(Sequence sequence) {
        gpuForecast = null;
        hostForecast = null;
        freeGpu -= kv.blocksFor(KvTier.GPU, sequence.computed());
        freeHost += sequence.table().count();
        gpuSequences++;
        ins.add(sequence);
        moved.add(sequence);
    }

    /** Counts the blocks of all tokens of a waiting sequence that starts in the tier. */
    void start(Sequence sequence, KvTier tier) {
        int blocks = kv.blocksFor(tier, sequence.length());
        KvDemandForecast forecast;
        if (tier == KvTier.GPU) {
            gpuStarts.add(sequence);
            forecast = gpuForecast;
            freeGpu -= blocks;
            gpuSequences++;
        } else {
            hostStarts.add(sequence);
            forecast = hostForecast;
            freeHost -= blocks;
        }
        if (forecast != null) {
            forecast.add(sequence);
        }
    }

    /** Undoes {@link #start} in the host tier. */
    void undoHostStart(Sequence sequence) {
        hostForecast = null;
        hostStarts.remove(sequence);
        freeHost += kv.blocksFor(KvTier.HOST, sequence.length());
    }

    /** Counts the blocks that the sequence lacks as used. */
    void take(Sequence sequence, KvTier tier) {
        add(tier, -missing(sequence));
    }

    /** Undoes {@link #take}. */
    void give(Sequence sequence, KvTier tier) {
        add(tier, missing(sequence));
    }

    private void add(KvTier tier, int blocks) {
        if (tier == KvTier.GPU) {
            freeGpu += blocks;
        } else {
            freeHost += blocks;
        }
    }
}
