package dev.tandem.engine.schedule;

import dev.tandem.engine.kv.BlockTable;
import dev.tandem.engine.kv.KvCapacity;
import dev.tandem.engine.kv.KvTier;
import dev.tandem.engine.request.RequestState;
import dev.tandem.engine.request.Sequence;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
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
    /**
     * Steps for which the GPU must have room, per token of a new sequence. Outputs that are long and alike end
     * together, and with room until then half of the GPU's blocks were empty. Simulated, L4, prompts of 350 and outputs
     * of 2,500 tokens: 248 output tokens/s with room until the end, 311 with 2, 315 with 1. On {@code h200-16sm-26k},
     * reasoning, the time per token is 9 % longer than with room until the end with 2, and 20 % with 1.
     */
    private static final int LOOK_AHEAD = 2;

    private static final int[] NO_BLOCKS = {};

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
    /** References that the draft adds to GPU blocks, by block; only when sequences share KV. */
    private final Map<Integer, Integer> added = new HashMap<>();

    private long shared;

    BlockLedger(SchedulerState state) {
        this.state = state;
        this.kv = state.kv();
        this.freeGpu = kv.pool(KvTier.GPU).free();
        this.freeBeforeMoves = freeGpu;
        this.freeHost = kv.pool(KvTier.HOST).free();
        this.gpuSequences = state.gpu().size();
        this.shared = kv.pool(KvTier.GPU).shared();
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
     * Whether a tier has room for one more sequence, by {@link KvDemandForecast}. An empty tier has: it holds any
     * sequence that was accepted.
     *
     * <p>On the GPU the room lasts for {@link #LOOK_AHEAD} steps per token that the sequence takes with it, or until
     * all have ended. Where it is preempted after that, it has decoded more than is computed again, or copied, in
     * memory that would have stayed empty. On the host the room lasts until all have ended.
     */
    boolean roomToGrow(KvTier tier, Sequence candidate) {
        KvDemandForecast forecast = forecast(tier);
        if (forecast.isEmpty()) {
            return true;
        }
        if (tier == KvTier.HOST) {
            return kv.blocksFor(tier, forecast.maxWith(candidate, candidate.length())) <= freeHost;
        }
        int tokens = own(candidate, referenced(hit(candidate)));
        return kv.blocksFor(tier, forecast.maxWith(candidate, tokens, LOOK_AHEAD * tokens)) <= freeGpu;
    }

    /** Max tokens that the host's sequences will hold at a time with one more, by {@link KvDemandForecast}. */
    long maxHostTokens(Sequence candidate) {
        KvDemandForecast forecast = forecast(KvTier.HOST);
        return forecast.held() + forecast.maxWith(candidate, candidate.length());
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
            addAll(hostForecast, state.inFlight());
        }
        return hostForecast;
    }

    /** Of the sequences that hold blocks in a tier once the draft is carried out. */
    private KvDemandForecast forecastOf(Iterable<Sequence> holders, List<Sequence> arrivals, List<Sequence> starts) {
        KvDemandForecast forecast = new KvDemandForecast(state.outputs());
        for (Sequence holder : holders) {
            if (!moved.contains(holder) && !drops.contains(holder)) {
                forecast.add(holder, own(holder, holder.table().hits()));
            }
        }
        addAll(forecast, arrivals);
        starts.forEach(start -> forecast.add(start, own(start, starts == gpuStarts ? hit(start).length : 0)));
        return forecast;
    }

    /** Tokens of a sequence whose first blocks are shared with others. */
    private int own(Sequence sequence, int sharedBlocks) {
        return sequence.length() - sharedBlocks * kv.blockTokens(KvTier.GPU);
    }

    private static void addAll(KvDemandForecast forecast, Iterable<Sequence> sequences) {
        for (Sequence sequence : sequences) {
            forecast.add(sequence, sequence.length());
        }
    }

    /**
     * Takes a sequence's GPU blocks: it moves to the host if {@code toHost} and the host has room, else it is dropped.
     * A half-computed prompt is always dropped, because no decode needs its KV yet.
     */
    void evict(Sequence sequence, boolean toHost) {
        gpuForecast = null;
        hostForecast = null;
        gpuSequences--;
        freeGpu += freedBy(sequence);
        int free = release(sequence);
        if (toHost && sequence.remaining() == 1 && hostHasRoomFor(sequence)) {
            freeHost -= kv.blocksFor(KvTier.HOST, sequence.computed());
            outs.add(sequence);
            moved.add(sequence);
        } else {
            freeBeforeMoves += free;
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
        KvDemandForecast forecast;
        int[] hit = tier == KvTier.GPU ? hit(sequence) : NO_BLOCKS;
        if (tier == KvTier.GPU) {
            gpuStarts.add(sequence);
            forecast = gpuForecast;
            freeGpu -= missingOnGpu(sequence);
            freeBeforeMoves -= hit.length - referenced(hit);
            shared += referenced(hit);
            for (int block : hit) {
                added.merge(block, 1, Integer::sum);
            }
            gpuSequences++;
        } else {
            hostStarts.add(sequence);
            forecast = hostForecast;
            freeHost -= kv.blocksFor(tier, sequence.length());
        }
        if (forecast != null) {
            forecast.add(sequence, own(sequence, hit.length));
        }
    }

    /** GPU blocks of a waiting sequence's hit, in token order; none when block tables have no room for them. */
    int[] hit(Sequence waiting) {
        if (waiting.state() != RequestState.WAITING) {
            return NO_BLOCKS;
        }
        int[] hit = kv.hit(waiting);
        return hit.length == 0 || shared + hit.length <= kv.maxShared() ? hit : NO_BLOCKS;
    }

    /**
     * Free blocks that a sequence takes when it starts on the GPU, or is moved there. Blocks of its hit are free too
     * while nobody refers to them.
     */
    int missingOnGpu(Sequence sequence) {
        return kv.blocksFor(KvTier.GPU, sequence.length()) - referenced(hit(sequence));
    }

    /** Whether {@code blocks} blocks can be borrowed if the sequence starts. */
    boolean leaves(Sequence starting, int blocks) {
        int[] hit = hit(starting);
        return hit.length == 0 || blocks <= borrowable() - (hit.length - referenced(hit));
    }

    /**
     * Blocks of a hit that other sequences refer to once the draft is carried out. A sequence that refers to a block
     * refers to all blocks before it, so they are the first ones.
     */
    private int referenced(int[] hit) {
        int count = hit.length;
        while (count > 0 && references(hit[count - 1]) == 0) {
            count--;
        }
        return count;
    }

    private int references(int block) {
        return kv.pool(KvTier.GPU).references(block) + added.getOrDefault(block, 0);
    }

    /** GPU blocks that become free if the sequence leaves the GPU. */
    int freedBy(Sequence leaving) {
        BlockTable table = leaving.table();
        if (!kv.cachesPrefixes()) {
            return table.count();
        }
        int freed = 0;
        for (int i = 0; i < table.count(); i++) {
            freed += references(table.block(i)) == 1 ? 1 : 0;
        }
        return freed;
    }

    /** Counts the sequence's references to GPU blocks as gone; returns how many blocks nobody else refers to now. */
    private int release(Sequence sequence) {
        BlockTable table = sequence.table();
        if (!kv.cachesPrefixes()) {
            return table.count();
        }
        int own = 0;
        for (int i = 0; i < table.count(); i++) {
            int block = table.block(i);
            added.merge(block, -1, Integer::sum);
            own += kv.pool(KvTier.GPU).references(block) == 1 ? 1 : 0;
        }
        return own;
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
