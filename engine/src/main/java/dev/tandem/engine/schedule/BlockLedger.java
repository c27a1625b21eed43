package dev.tandem.engine.schedule;

import dev.tandem.engine.kv.KvCapacity;
import dev.tandem.engine.kv.KvLayout;
import dev.tandem.engine.kv.KvTier;
import dev.tandem.engine.kv.PrefixUse;
import dev.tandem.engine.request.RequestState;
import dev.tandem.engine.request.Sequence;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Stream;
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

    private final SchedulerState state;
    private final KvCapacity kv;
    private final BlockReferences references;
    private final ExpectedContexts expected;
    private int freeGpu;
    private int freeBeforeMoves;
    private int freeHost;
    /** Host blocks that are free before moves to the GPU free more, which moves and copies to the host come before. */
    private int freeHostBeforeIns;

    private int gpuSequences;
    private final List<Sequence> drops = new ArrayList<>();
    private final List<Sequence> outs = new ArrayList<>();
    private final List<Sequence> ins = new ArrayList<>();
    private final Set<Sequence> moved = new HashSet<>();
    /** GPU sequences whose blocks are counted before their rows are added. */
    private final Set<Sequence> reserved = new HashSet<>();

    private final List<Sequence> gpuStarts = new ArrayList<>();
    private final List<Sequence> hostStarts = new ArrayList<>();
    /** In-flight sequences for which GPU blocks stay free. */
    private final List<Sequence> returning = new ArrayList<>();
    /**
     * [kinds] per kind of groups of layers; null until {@link #roomToGrow} asks, and again after a move that changes
     * them.
     */
    private KvDemandForecast @Nullable [] gpuForecasts;

    private KvDemandForecast @Nullable [] hostForecasts;
    /**
     * Host sequences whose first blocks are shared count with their whole context here: attention reads it for each.
     */
    private @Nullable KvDemandForecast hostContexts;
    /** The sum of the host sequences' contexts by which their pace is expected; negative until it is asked for. */
    private long expectedContexts = -1;
    /** The sum of {@link #expectedGpuBlocks(Sequence)} of the sequences on the GPU; negative until it is asked for. */
    private int expectedGpuBlocks = -1;
    /** What sequences that start or move take from the prefix cache; only those that take something. */
    private final Map<Sequence, PrefixUse> uses = new LinkedHashMap<>();

    private long shared;
    /** GPU blocks that sequences leave free when they start or move there. */
    private int leftForStaging;

    BlockLedger(SchedulerState state) {
        this.state = state;
        this.kv = state.kv();
        this.references = new BlockReferences(kv);
        this.expected = new ExpectedContexts(state);
        this.freeGpu = kv.pool(KvTier.GPU).free();
        this.freeBeforeMoves = freeGpu;
        this.freeHost = kv.pool(KvTier.HOST).free();
        this.freeHostBeforeIns = freeHost;
        this.gpuSequences = state.gpu().size();
        this.shared = kv.pool(KvTier.GPU).shared();
    }

    /** Who refers to blocks once the draft is carried out. */
    BlockReferences references() {
        return references;
    }

    int freeGpu() {
        return freeGpu;
    }

    void leaveForStaging(int gpuBlocks) {
        leftForStaging = gpuBlocks;
    }

    int leftForStaging() {
        return leftForStaging;
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
        if (!reserved.isEmpty() && reserved.contains(sequence)) {
            return 0;
        }
        if (!moved.isEmpty() && moved.contains(sequence)) {
            KvTier tier = ins.contains(sequence) ? KvTier.GPU : KvTier.HOST;
            int computed = sequence.computed();
            return kv.held(tier, computed, sequence.length()) - kv.held(tier, computed, computed);
        }
        return kv.missing(sequence, sequence.length());
    }

    boolean fitsHost(Sequence sequence) {
        return kv.maxHeld(KvTier.HOST, sequence.limit()) <= kv.pool(KvTier.HOST).size();
    }

    /**
     * Whether a GPU sequence can move to the host, before others leave it, and has room for all of its tokens there.
     */
    boolean hostHasRoomFor(Sequence sequence) {
        PrefixUse use = use(sequence, KvTier.HOST);
        int computed = sequence.computed();
        int referenced = references.heldByOthers(use);
        return kv.held(KvTier.HOST, computed, sequence.length()) - referenced <= freeHost
                && kv.held(KvTier.HOST, computed, computed) - referenced <= freeHostBeforeIns;
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
        KvDemandForecast[] forecasts = forecasts(tier);
        if (forecasts[0].isEmpty()) {
            return true;
        }
        PrefixUse use = use(candidate, tier);
        int computed = candidate.state() == RequestState.WAITING ? use.tokens() : candidate.computed();
        List<KvLayout.Kind> kinds = kv.layout().kinds();
        int steps = Integer.MAX_VALUE;
        int blocks = 0;
        for (int i = 0; i < forecasts.length; i++) {
            KvLayout.Kind kind = kinds.get(i);
            int tokens = own(candidate, computed, tier, kind, sharedWithOthers(use, kind));
            if (i == 0 && tier == KvTier.GPU) { // in the first groups it takes most
                steps = LOOK_AHEAD * tokens;
            }
            blocks += kind.groups() * kv.blocksFor(tier, forecasts[i].maxWith(candidate, tokens, steps));
        }
        return blocks <= (tier == KvTier.HOST ? freeHost : freeGpu - leftForStaging);
    }

    /** Index after the first blocks of a use, in each group of a kind, that other sequences refer to. */
    private int sharedWithOthers(PrefixUse use, KvLayout.Kind kind) {
        return use.listed() == 0 ? 0 : use.first()[kind.first()] + references.heldByOthers(use, kind.first());
    }

    /**
     * Max tokens of context that the host's sequences will have at a time with one more, by {@link KvDemandForecast}. A
     * token that several sequences share counts for each of them.
     */
    long maxHostContext(Sequence candidate) {
        KvDemandForecast forecast = hostContexts();
        return forecast.held() + forecast.maxWith(candidate, kv.span().tokens(candidate.length()));
    }

    private KvDemandForecast hostContexts() {
        if (!kv.cachesPrefixes() && kv.span().isWhole()) {
            return forecasts(KvTier.HOST)[0]; // without shared blocks and windows they are the same
        }
        if (hostContexts == null) {
            KvDemandForecast contexts =
                    new KvDemandForecast(state.outputs(), kv.span().maxTokens());
            on(KvTier.HOST).forEach(sequence -> contexts.add(sequence, kv.span().tokens(sequence.length())));
            hostContexts = contexts;
        }
        return hostContexts;
    }

    /**
     * The sum of the contexts by which the pace of the host's sequences and some more is expected
     * ({@link ExpectedContexts}). A token that several sequences share counts for each of them.
     */
    long expectedHostContext(List<Sequence> candidates) {
        if (expectedContexts < 0) {
            expectedContexts = on(KvTier.HOST).mapToLong(expected::of).sum();
        }
        long tokens = expectedContexts;
        for (Sequence candidate : candidates) {
            tokens += expected.of(candidate);
        }
        return tokens;
    }

    /** GPU blocks that a sequence holds with its expected context ({@link ExpectedContexts}), shared ones included. */
    int expectedGpuBlocks(Sequence sequence) {
        return kv.maxHeld(KvTier.GPU, expected.length(sequence));
    }

    /** The sum of these blocks of all sequences on the GPU; a block that several share counts for each of them. */
    int expectedGpuBlocks() {
        if (expectedGpuBlocks < 0) {
            expectedGpuBlocks = on(KvTier.GPU).mapToInt(this::expectedGpuBlocks).sum();
        }
        return expectedGpuBlocks;
    }

    /** Forgets what was computed for the GPU's sequences, likewise. */
    private void gpuChanged() {
        gpuForecasts = null;
        expectedGpuBlocks = -1;
    }

    /** Forgets what was computed for the host's sequences, which other methods compute anew when they are asked. */
    private void hostChanged() {
        hostForecasts = null;
        hostContexts = null;
        expectedContexts = -1;
    }

    /** Sequences whose KV is in a tier once the draft is carried out. */
    private Stream<Sequence> on(KvTier tier) {
        boolean gpu = tier == KvTier.GPU;
        Stream<Sequence> stay = (gpu ? state.gpu() : state.host())
                .stream().filter(sequence -> !moved.contains(sequence) && !drops.contains(sequence));
        Stream<Collection<Sequence>> others =
                gpu ? Stream.of(ins, gpuStarts) : Stream.of(state.inFlight(), outs, hostStarts);
        return Stream.concat(stay, others.flatMap(Collection::stream));
    }

    private KvDemandForecast[] forecasts(KvTier tier) {
        if (tier == KvTier.GPU) {
            if (gpuForecasts == null) {
                gpuForecasts = forecastsOf(KvTier.GPU, state.gpu(), List.of(), ins, gpuStarts);
                for (Sequence sequence : returning) {
                    addReturning(gpuForecasts, sequence);
                }
            }
            return gpuForecasts;
        }
        if (hostForecasts == null) {
            hostForecasts = forecastsOf(KvTier.HOST, state.host(), state.inFlight(), outs, hostStarts);
        }
        return hostForecasts;
    }

    private KvDemandForecast[] forecastsOf(
            KvTier tier,
            Iterable<Sequence> holders,
            Iterable<Sequence> inFlight,
            List<Sequence> arrivals,
            List<Sequence> starts) {
        List<KvLayout.Kind> kinds = kv.layout().kinds();
        KvDemandForecast[] forecasts = new KvDemandForecast[kinds.size()];
        for (int i = 0; i < forecasts.length; i++) {
            forecasts[i] = forecastOf(tier, kinds.get(i), holders, inFlight, arrivals, starts);
        }
        return forecasts;
    }

    /** Of the sequences that hold blocks in a tier once the draft is carried out, in one group of a kind. */
    private KvDemandForecast forecastOf(
            KvTier tier,
            KvLayout.Kind kind,
            Iterable<Sequence> holders,
            Iterable<Sequence> inFlight,
            List<Sequence> arrivals,
            List<Sequence> starts) {
        KvDemandForecast forecast =
                new KvDemandForecast(state.outputs(), kind.window().maxDecoding());
        for (Sequence holder : holders) {
            if (!moved.contains(holder) && !drops.contains(holder)) {
                forecast.add(holder, own(holder, tier, kind));
            }
        }
        for (Sequence arrival : arrivals) {
            PrefixUse use = usedBy(arrival, tier);
            forecast.add(arrival, own(arrival, arrival.computed(), tier, kind, use.shared()));
        }
        for (Sequence start : starts) {
            PrefixUse use = usedBy(start, tier);
            forecast.add(start, own(start, use.tokens(), tier, kind, use.shared()));
        }
        for (Sequence holder : inFlight) {
            forecast.add(holder, own(holder, tier, kind));
        }
        return forecast;
    }

    /** Tokens of a sequence that holds blocks in the tier, without those that it has hit. */
    private int own(Sequence holder, KvTier tier, KvLayout.Kind kind) {
        return own(holder, holder.computed(), tier, kind, holder.table().hits());
    }

    /**
     * Tokens that a sequence holds in each group of a kind and does not share with others.
     *
     * @param sharedBlocks its first blocks, which it shares; those behind its window are not held
     */
    private int own(Sequence sequence, int computed, KvTier tier, KvLayout.Kind kind, int sharedBlocks) {
        int first = Math.max(kind.window().start(computed), sharedBlocks * kv.blockTokens(tier));
        return kind.window().end(computed, sequence.length()) - first;
    }

    /**
     * Takes a sequence's GPU blocks: it moves to the host if {@code toHost} and the host has room, else it is dropped.
     * A half-computed prompt is always dropped, because no decode needs its KV yet.
     */
    void evict(Sequence sequence, boolean toHost) {
        if (reserved.remove(sequence)) {
            give(sequence, KvTier.GPU);
        }
        gpuChanged();
        hostChanged();
        gpuSequences--;
        freeGpu += references.freedBy(sequence);
        int free = references.release(sequence);
        if (toHost && sequence.remaining() == 1 && hostHasRoomFor(sequence)) {
            PrefixUse use = use(sequence, KvTier.HOST);
            int computed = sequence.computed();
            int taken = kv.held(KvTier.HOST, computed, computed) - references.heldByOthers(use);
            freeHost -= taken;
            freeHostBeforeIns -= taken;
            take(sequence, use);
            outs.add(sequence);
            moved.add(sequence);
        } else {
            freeBeforeMoves += free;
            drops.add(sequence);
        }
    }

    /** Drops a host sequence's KV. */
    void dropFromHost(Sequence sequence) {
        hostChanged();
        freeHost += references.freedBy(sequence);
        freeHostBeforeIns += references.release(sequence);
        drops.add(sequence);
    }

    /** Moves a host sequence to the GPU; the caller has checked that there is room. */
    void bringIn(Sequence sequence) {
        gpuChanged();
        hostChanged();
        PrefixUse use = use(sequence, KvTier.GPU);
        int referenced = references.heldByOthers(use);
        int computed = sequence.computed();
        freeGpu -= kv.held(KvTier.GPU, computed, computed) - referenced;
        freeBeforeMoves -= use.listed() - referenced;
        take(sequence, use);
        freeHost += references.freedBy(sequence);
        references.release(sequence);
        gpuSequences++;
        ins.add(sequence);
        moved.add(sequence);
    }

    /**
     * Keeps GPU blocks free for all tokens of an in-flight sequence that is to return, and one per group for its
     * growth.
     */
    void reserveForReturn(Sequence sequence) {
        freeGpu -= missingIn(KvTier.GPU, sequence) + kv.layout().groups();
        returning.add(sequence);
        if (gpuForecasts != null) {
            addReturning(gpuForecasts, sequence);
        }
    }

    private void addReturning(KvDemandForecast[] forecasts, Sequence sequence) {
        for (int i = 0; i < forecasts.length; i++) {
            KvLayout.Kind kind = kv.layout().kinds().get(i);
            forecasts[i].add(sequence, own(sequence, sequence.computed(), KvTier.GPU, kind, 0));
        }
    }

    /** Counts the blocks of all tokens of a waiting sequence that starts in the tier. */
    void start(Sequence sequence, KvTier tier) {
        boolean onGpu = tier == KvTier.GPU;
        KvDemandForecast[] forecasts = onGpu ? gpuForecasts : hostForecasts;
        PrefixUse use = use(sequence, tier);
        int referenced = references.heldByOthers(use);
        add(tier, referenced - kv.held(tier, use.tokens(), sequence.length()));
        add(tier.other(), -references.pinned(use));
        freeBeforeMoves -= onGpu ? use.listed() - referenced : references.pinned(use);
        freeHostBeforeIns -= onGpu ? references.pinned(use) : takenBeforeIns(use);
        take(sequence, use);
        (onGpu ? gpuStarts : hostStarts).add(sequence);
        gpuSequences += onGpu ? 1 : 0;
        for (int i = 0; forecasts != null && i < forecasts.length; i++) {
            KvLayout.Kind kind = kv.layout().kinds().get(i);
            forecasts[i].add(sequence, own(sequence, use.tokens(), tier, kind, use.shared()));
        }
        if (!onGpu && hostContexts != null) {
            hostContexts.add(sequence, kv.span().tokens(sequence.length()));
        }
        if (!onGpu && expectedContexts >= 0) {
            expectedContexts += expected.of(sequence);
        }
        if (onGpu && expectedGpuBlocks >= 0) {
            expectedGpuBlocks += expectedGpuBlocks(sequence);
        }
    }

    /** Free host blocks that a sequence which starts there takes from the cache or copies to, before it computes. */
    private int takenBeforeIns(PrefixUse use) {
        return kv.held(KvTier.HOST, use.tokens(), use.tokens()) - references.heldByOthers(use);
    }

    /** Counts what a use takes. */
    private void take(Sequence sequence, PrefixUse use) {
        if (use.tokens() == 0) {
            return;
        }
        uses.put(sequence, use);
        shared += use.tier() == KvTier.GPU ? references.heldByOthers(use) : 0;
        references.add(use, 1);
    }

    /** What the draft's sequences take from the prefix cache when they start or move; nothing for all others. */
    Map<Sequence, PrefixUse> uses() {
        return uses;
    }

    /** What a sequence of the draft takes from the prefix cache in its tier. */
    PrefixUse usedBy(Sequence sequence, KvTier tier) {
        PrefixUse use = uses.get(sequence);
        return use == null ? PrefixUse.nothing(tier) : use;
    }

    /** What a sequence would take from the prefix cache if it started in a tier, or were moved there. */
    PrefixUse use(Sequence sequence, KvTier tier) {
        if (!kv.cachesPrefixes()) {
            return PrefixUse.nothing(tier);
        }
        boolean starts = sequence.state() == RequestState.WAITING;
        if (!starts && sequence.table().tier() == tier) {
            return PrefixUse.nothing(tier);
        }
        int[] found = kv.hit(sequence, tier);
        if (!starts && found.length == 0) {
            return PrefixUse.nothing(tier); // before the divisions below (PlanningBenchmark.plan of symmetric)
        }
        if (tier == KvTier.GPU && shared + found.length > kv.maxShared(tier)) {
            return PrefixUse.nothing(tier);
        }
        int each = kv.blockTokens(tier);
        int gpuEach = kv.blockTokens(KvTier.GPU);
        int ratio = kv.blockTokens(KvTier.HOST) / gpuEach;
        int blocks = found.length / kv.layout().groups();
        // a copy begins and ends with a host block
        int whole = tier == KvTier.GPU ? blocks / ratio * ratio : blocks;
        if (!starts) {
            int[] first = kv.firstHeld(tier, sequence.computed());
            // the narrowest window begins last, in the last group
            return whole > first[first.length - 1]
                    ? PrefixUse.sharing(tier, found, first, whole, whole * each)
                    : PrefixUse.nothing(tier);
        }
        int[] other = kv.hit(sequence, tier.other());
        int otherEach = kv.blockTokens(tier.other());
        int max = (sequence.length() - 2) / gpuEach / ratio * ratio * gpuEach;
        int otherBlocks = other.length / kv.layout().groups();
        int tokens = Math.min(max, otherBlocks / (tier == KvTier.GPU ? 1 : ratio) * ratio * gpuEach);
        int known = blocks * each;
        if (tokens > known) {
            int[] first = kv.firstHeld(tier, tokens);
            int[] copyFrom = new int[first.length];
            long copied = 0;
            for (int group = 0; group < first.length; group++) {
                int from = Math.max(first[group], whole) * each;
                copyFrom[group] = from / otherEach;
                copied += tokens - from;
            }
            if (state.copies()
                    .pays(
                            (int) (copied / first.length),
                            tokens - known,
                            kv.span().pairs(known, tokens - known))) {
                PrefixUse copying = PrefixUse.sharing(tier, found, first, whole, whole * each)
                        .copying(other, copyFrom, tokens / otherEach, tokens);
                if (copying.hasCopied() && leavesRoom(copying)) {
                    return copying;
                }
            }
        }
        PrefixUse sharing = PrefixUse.sharing(tier, found, kv.firstHeld(tier, known), blocks, known);
        return leavesRoom(sharing) ? sharing : PrefixUse.nothing(tier);
    }

    /** Whether a start leaves the blocks that the draft's moves need: what it takes is claimed before them. */
    private boolean leavesRoom(PrefixUse use) {
        int pinned = references.pinned(use);
        return switch (use.tier()) {
            case GPU -> pinned <= Math.min(freeHost, freeHostBeforeIns);
            case HOST -> pinned <= freeGpu && takenBeforeIns(use) <= freeHostBeforeIns;
        };
    }

    /** Tokens of a waiting sequence that need not be computed if it starts in the tier. */
    int hit(Sequence waiting, KvTier tier) {
        return use(waiting, tier).tokens();
    }

    /** Free blocks of a tier that a sequence takes when it starts there or is moved there, for all of its tokens. */
    int missingIn(KvTier tier, Sequence sequence) {
        PrefixUse use = use(sequence, tier);
        int computed = sequence.state() == RequestState.WAITING ? use.tokens() : sequence.computed();
        return kv.held(tier, computed, sequence.length()) - references.heldByOthers(use);
    }

    /** Whether {@code blocks} blocks can be borrowed if the sequence starts or moves to the GPU. */
    boolean leaves(Sequence arriving, int blocks) {
        if (blocks == 0 || !kv.cachesPrefixes()) {
            return true;
        }
        PrefixUse use = use(arriving, KvTier.GPU);
        return blocks <= borrowable() - (use.listed() - references.heldByOthers(use));
    }

    /** GPU blocks that the step may borrow if the sequence starts on the host: it may copy from others. */
    int borrowableBeside(Sequence startingOnHost) {
        return startingOnHost.state() == RequestState.WAITING
                ? borrowable() - references.pinned(use(startingOnHost, KvTier.HOST))
                : borrowable();
    }

    /**
     * Whether a waiting sequence is to wait, because another one computes at least half of the tokens that it lacks,
     * and others may hit these soon. A sequence does not wait for one of lower priority.
     */
    boolean defers(Sequence waiting) {
        if (!kv.cachesPrefixes() || !waiting.request().caching().enabled()) {
            return false;
        }
        if (kv.pending().isEmpty() && gpuStarts.isEmpty() && hostStarts.isEmpty()) {
            return false;
        }
        int known = Math.max(hit(waiting, KvTier.GPU), hit(waiting, KvTier.HOST));
        int each = kv.blockTokens(KvTier.GPU);
        int tokens = (known + (waiting.length() - known) / 2 + each - 1) / each * each;
        if (tokens <= known || tokens >= waiting.length()) {
            return false;
        }
        for (Sequence pending : kv.pending()) {
            if (!drops.contains(pending) && computes(pending, pending.table().tier(), waiting, tokens)) {
                return true;
            }
        }
        return anyComputes(gpuStarts, KvTier.GPU, waiting, tokens)
                || anyComputes(hostStarts, KvTier.HOST, waiting, tokens);
    }

    private boolean anyComputes(List<Sequence> starts, KvTier tier, Sequence waiting, int tokens) {
        for (Sequence start : starts) {
            if (start.request().caching().enabled() && computes(start, tier, waiting, tokens)) {
                return true;
            }
        }
        return false;
    }

    private boolean computes(Sequence other, KvTier tier, Sequence waiting, int tokens) {
        return other.request().priority() <= waiting.request().priority()
                && kv.willRegister(other, tier, waiting, tokens);
    }

    /**
     * Undoes {@link #start} in the host tier. What it shared or copied may belong to a sequence that the draft moves
     * away meanwhile, so these blocks do not count as free before moves again.
     */
    void undoHostStart(Sequence sequence) {
        hostChanged();
        hostStarts.remove(sequence);
        PrefixUse use = uses.remove(sequence);
        if (use == null) {
            freeHost += kv.held(KvTier.HOST, 0, sequence.length());
            return;
        }
        references.add(use, -1);
        freeHost += kv.held(KvTier.HOST, use.tokens(), sequence.length()) - references.heldByOthers(use);
        add(KvTier.GPU, references.pinned(use));
    }

    /** Counts the GPU blocks that a sequence lacks before anything else can take them. */
    void reserve(Sequence sequence) {
        take(sequence, KvTier.GPU);
        reserved.add(sequence);
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
