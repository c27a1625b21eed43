package dev.tandem.engine.schedule;

import dev.tandem.engine.kv.KvTier;
import dev.tandem.engine.kv.PrefillStaging;
import dev.tandem.engine.request.RequestState;
import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.step.AttentionSite;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Predicate;
import org.jspecify.annotations.Nullable;

/**
 * A step in the making: which sequences compute how many tokens, in which sub-batch, and who computes their attention.
 *
 * <p>A draft has no side effect. A policy may make several drafts of one state and drop all but one;
 * {@link PlanCommitter#commit} carries that one out. {@link BlockLedger} counts the draft's blocks.
 *
 * <p>Owned by: engine thread.
 */
public final class StepDraft {
    /**
     * One sequence's part in the step.
     *
     * @param start tokens before those that are computed; for a sequence that starts, those of its hit
     * @param rows tokens to compute
     * @param site who computes their attention
     */
    public record Row(Sequence sequence, int start, int rows, AttentionSite site) {
        /** True for a decode: one token, whose context is computed. */
        public boolean decodes() {
            return start > 0 && sequence.length() - start == 1;
        }
    }

    private final SchedulerState state;
    private final Budget budget;
    private final boolean forecasts;
    private final BlockLedger blocks;
    private final List<Sequence> bypassed = new ArrayList<>();
    private final List<List<Row>> batches = List.of(new ArrayList<>(), new ArrayList<>());
    private final List<Load> loads;
    private final List<Sequence> admissions = new ArrayList<>();
    private final List<Sequence> resumed = new ArrayList<>();
    private final List<Sequence> paused = new ArrayList<>();
    private long admittedTokens;
    private PrefillStaging.Need staged = PrefillStaging.Need.NOTHING;
    private int slots;
    private Shape shape = Shape.GPU_ONLY;
    private boolean cohort;
    private boolean notesRotation;
    private int gpuBlocksKeptFree;
    private Predicate<Sequence> leavesBlocksFree = sequence -> true;
    private @Nullable GpuKvLimit foundGpuKvLimit;
    private String note = "";

    /** Creates an empty draft. */
    public StepDraft(SchedulerState state, Budget budget) {
        this(state, budget, true);
    }

    /**
     * Creates an empty draft.
     *
     * @param forecasts whether {@link #roomToGrow} asks the forecast; otherwise there always is room
     */
    public StepDraft(SchedulerState state, Budget budget, boolean forecasts) {
        this.state = state;
        this.budget = budget;
        this.forecasts = forecasts;
        this.loads = List.of(new Load(state.kv().span()), new Load(state.kv().span()));
        this.blocks = new BlockLedger(state);
    }

    /** The state that the draft was made of. */
    public SchedulerState state() {
        return state;
    }

    /** What the step may hold. */
    public Budget budget() {
        return budget;
    }

    BlockLedger blocks() {
        return blocks;
    }

    /** GPU blocks that are free once the draft is carried out, and that it does not borrow either. */
    public int freeGpu() {
        return blocks.freeGpu() - stagingBlocks();
    }

    /** GPU blocks that the step borrows for the KV of offloaded prefills in transit. */
    public int stagingBlocks() {
        return state.kv().staging().blocks(staged);
    }

    /** Host blocks that are free once the draft is carried out. */
    public int freeHost() {
        return blocks.freeHost();
    }

    /** Sequences that hold GPU blocks once the draft is carried out. */
    public int gpuSequences() {
        return blocks.gpuSequences();
    }

    /** Sequences that hold host blocks once the draft is carried out. */
    public int hostSequences() {
        return blocks.hostSequences();
    }

    /**
     * Max tokens of context that the host's sequences are forecast to have at a time, with one more; shared tokens
     * count for each sequence. Sequences that started together grow together.
     */
    public long maxHostContext(Sequence candidate) {
        return blocks.maxHostContext(candidate);
    }

    /**
     * The sum of the contexts by which the pace of the host's sequences and some more is expected: those in the middle
     * of their outputs with a margin, at most those at their ends. Shared tokens count for each sequence.
     */
    public long expectedHostContext(List<Sequence> candidates) {
        return blocks.expectedHostContext(candidates);
    }

    /** Blocks that the sequence lacks for all of its tokens, after the draft's moves. */
    public int missing(Sequence sequence) {
        return blocks.missing(sequence);
    }

    /**
     * Whether a tier has room for one more sequence and for the growth of all, by {@link KvDemandForecast}. An empty
     * tier has: it holds any sequence that was accepted.
     */
    public boolean roomToGrow(KvTier tier, Sequence candidate) {
        return !forecasts || blocks.roomToGrow(tier, candidate);
    }

    /** Tokens of a waiting sequence that need not be computed if it starts on the GPU: they are in the prefix cache. */
    public int hit(Sequence waiting) {
        return blocks.hit(waiting, KvTier.GPU);
    }

    /** Tokens of a waiting sequence that need not be computed if it starts on the host. */
    public int hostHit(Sequence waiting) {
        return blocks.hit(waiting, KvTier.HOST);
    }

    /**
     * Whether a waiting sequence is to wait for another one that computes at least half of the tokens that it lacks, so
     * that it hits them.
     */
    public boolean defers(Sequence waiting) {
        return blocks.defers(waiting);
    }

    /** Free GPU blocks that a sequence would take if it started on the GPU, or were moved there. */
    public int missingOnGpu(Sequence sequence) {
        return blocks.missingIn(KvTier.GPU, sequence);
    }

    /** Free host blocks that a sequence would take if it started on the host, or were moved there. */
    public int missingOnHost(Sequence sequence) {
        return blocks.missingIn(KvTier.HOST, sequence);
    }

    /** Blocks that become free if the sequence leaves its tier: those that no other sequence refers to. */
    public int freedBy(Sequence leaving) {
        return blocks.references().freedBy(leaving);
    }

    /**
     * Whether the GPU has free blocks for a sequence that starts or is moved there. The blocks that it keeps free must
     * stay free with the expected contexts of all sequences there, too: young ones hold few blocks (ADR 147).
     *
     * @param reserve further blocks that are to stay free
     */
    public boolean gpuHasRoomFor(Sequence sequence, int reserve) {
        int missing = blocks.missingIn(KvTier.GPU, sequence);
        int keptFree = keptFreeFrom(sequence, missing);
        return missing + reserve + Math.max(blocks.leftForStaging(), keptFree) <= freeGpu()
                && blocks.leaves(sequence, stagingBlocks())
                && (keptFree == 0 || staysFreeWith(sequence));
    }

    /**
     * Whether the blocks that are kept free are expected to stay free with one more sequence on the GPU. One that alone
     * is expected to take some of them passes, and so does a prompt too long to be staged, which reaches the host by
     * way of the GPU: else all behind it would wait.
     */
    private boolean staysFreeWith(Sequence sequence) {
        int room = state.kv().pool(KvTier.GPU).size() - gpuBlocksKeptFree;
        int alone = blocks.expectedGpuBlocks(sequence);
        return blocks.expectedGpuBlocks() + alone <= room || alone > room || !couldStage(sequence.length());
    }

    /** Blocks that the sequence must leave free; 0 where the host cannot take it, or it never fits beside them. */
    private int keptFreeFrom(Sequence sequence, int missing) {
        if (gpuBlocksKeptFree == 0 || !fitsHost(sequence) || !leavesBlocksFree.test(sequence)) {
            return 0;
        }
        boolean fitsAlone = missing + nextBlocks(1) + gpuBlocksKeptFree
                <= state.kv().pool(KvTier.GPU).size();
        return fitsAlone ? gpuBlocksKeptFree : 0;
    }

    /**
     * Has sequences that start on the GPU, or move there, leave the blocks that later steps borrow to offload prompts.
     *
     * @param tokens of the prompts of a step, with the earlier chunks of a prompt that was begun
     */
    public void leaveForStaging(int tokens) {
        PrefillStaging staging = state.kv().staging();
        blocks.leaveForStaging(staging.blocks(staging.max(Math.min(tokens, staging.maxTokens()))));
    }

    /** Blocks that sequences take when each of them begins one more, in all groups of layers. */
    public int nextBlocks(int sequences) {
        return sequences * state.kv().layout().groups();
    }

    /** Whether the host pool is large enough for the sequence's max length. */
    public boolean fitsHost(Sequence sequence) {
        return blocks.fitsHost(sequence);
    }

    /** Whether the host has free blocks for all of the sequence's tokens. */
    public boolean hostHasRoomFor(Sequence sequence) {
        return blocks.hostHasRoomFor(sequence);
    }

    /**
     * Takes a sequence's GPU blocks: it moves to the host if {@code toHost} and the host has room, else it is dropped
     * and computed again. A half-computed prompt is always dropped, because no decode needs its KV yet.
     */
    public void evict(Sequence sequence, boolean toHost) {
        blocks.evict(sequence, toHost);
    }

    /** Drops a host sequence's KV, which is computed again. */
    public void dropFromHost(Sequence sequence) {
        blocks.dropFromHost(sequence);
    }

    /** Moves a host sequence to the GPU; the caller has checked that there is room. */
    public void bringIn(Sequence sequence) {
        blocks.bringIn(sequence);
    }

    /** Sequences moved from the GPU to the host, in the order of the moves. */
    public List<Sequence> outs() {
        return blocks.outs();
    }

    /** Sequences moved from the host to the GPU, in the order of the moves. */
    public List<Sequence> ins() {
        return blocks.ins();
    }

    /** Sequences whose KV is dropped and computed again. */
    public List<Sequence> drops() {
        return blocks.drops();
    }

    /** How the parts of the step overlap. */
    public Shape shape() {
        return shape;
    }

    /** Sets how the parts of the step overlap. */
    public void shape(Shape next) {
        shape = next;
    }

    /** The sequences of sub-batch 0 or 1. */
    public List<Row> rows(int batch) {
        return batches.get(batch);
    }

    /** The work of sub-batch 0 or 1. */
    public Load load(int batch) {
        return loads.get(batch);
    }

    /** Tokens of both sub-batches and of the admissions. */
    public int totalRows() {
        return loads.get(0).rows() + loads.get(1).rows() + admissions.size();
    }

    /** Host sequences whose token enters layer 0. */
    public List<Sequence> admissions() {
        return admissions;
    }

    /** Tokens that {@link #admissions} attend to. */
    public long admittedTokens() {
        return admittedTokens;
    }

    /** In-flight sequences whose token finishes within this step. */
    public List<Sequence> resumed() {
        return resumed;
    }

    /** True when the step gives work to the host: attention, admissions, in-flight tokens, or prompts that offload. */
    public boolean offloads() {
        return loads.get(0).cpuRows() + loads.get(1).cpuRows() + admissions.size() + resumed.size() > 0
                || loads.get(0).prefillOffloadTokens() > 0;
    }

    /** True when the step computes, moves and drops nothing. */
    public boolean isEmpty() {
        return loads.get(0).rows() + loads.get(1).rows() + admissions.size() + resumed.size() == 0
                && outs().isEmpty()
                && ins().isEmpty()
                && drops().isEmpty();
    }

    /** Undoes {@link #add} of a GPU row to sub-batch 0. */
    private void remove(int index) {
        Row row = removeRow(index);
        blocks.give(row.sequence(), KvTier.GPU);
    }

    private Row removeRow(int index) {
        Row row = batches.get(0).remove(index);
        loads.get(0).add(row, -1);
        staged = staged.minus(staged(row));
        return row;
    }

    /** Exchanges a GPU row's sequence for one from the host; the caller has checked that both fit. */
    public void replace(int index, Sequence in, AttentionSite site) {
        moveOut(index);
        bringIn(in);
        add(0, in, 1, site);
    }

    /** Marks this draft as an occasion to rotate sequences between the tiers, whether or not it rotates any. */
    public void noteRotation() {
        notesRotation = true;
    }

    /** True when this draft was an occasion to rotate sequences. */
    public boolean notesRotation() {
        return notesRotation;
    }

    /** Moves a GPU row's sequence to the host; the caller has checked that it fits. */
    public void moveOut(int index) {
        Sequence sequence = batches.get(0).get(index).sequence();
        remove(index);
        evict(sequence, true);
    }

    /**
     * Has sequences that start on the GPU, or move there, leave some of its pool's blocks free.
     *
     * @param these which sequences do, of those that fit the host; others have none but the GPU
     */
    public void keepGpuBlocksFree(int blocks, Predicate<Sequence> these) {
        gpuBlocksKeptFree = blocks;
        leavesBlocksFree = these;
    }

    /** Whether the sequence leaves GPU blocks free where {@link #keepGpuBlocksFree} asks for it. */
    public boolean leavesBlocksFree(Sequence sequence) {
        return leavesBlocksFree.test(sequence);
    }

    /** Blocks of the GPU's pool that sequences which start there, or move there, leave free. */
    public int gpuBlocksKeptFree() {
        return gpuBlocksKeptFree;
    }

    /** Marks this draft as one that searched how much KV the GPU is to hold. */
    public void noteGpuKvLimit(GpuKvLimit found) {
        foundGpuKvLimit = found;
    }

    /** What this draft found of how much KV the GPU is to hold; null if it did not search. */
    public @Nullable GpuKvLimit foundGpuKvLimit() {
        return foundGpuKvLimit;
    }

    /** Sets what the decision log says of this draft besides the reason that it was chosen. */
    public void note(String text) {
        note = text;
    }

    /** What the decision log says of this draft besides the reason that it was chosen; empty for nothing. */
    public String note() {
        return note;
    }

    /** Starts a waiting sequence in sub-batch 0 and counts blocks for all of its tokens in the tier of the site. */
    public void start(Sequence sequence, int rows, AttentionSite site) {
        int start = blocks.hit(sequence, site.tier());
        blocks.start(sequence, site.tier());
        append(0, new Row(sequence, start, rows, site));
    }

    /** Undoes {@link #start} of a sequence whose prefill was to be offloaded. */
    public void removePrefillOffload(int index) {
        blocks.undoHostStart(removeRow(index).sequence());
    }

    /** Notes that the sequence that starts next bypasses this one, which is ahead of it in the queue. */
    public void bypass(Sequence waiting) {
        bypassed.add(waiting);
    }

    List<Sequence> bypassed() {
        return bypassed;
    }

    /** Adds tokens of a sequence that holds KV, or is moved by this draft, and counts the blocks that it lacks. */
    public void add(int batch, Sequence sequence, int rows, AttentionSite site) {
        blocks.take(sequence, site.tier());
        append(batch, new Row(sequence, sequence.computed(), rows, site));
    }

    /**
     * Keeps the blocks that a GPU sequence lacks for its tokens, which {@link #add} then takes: a prompt in chunks has
     * all of its blocks, but tokens that a grammar forces may need new ones.
     */
    public void reserve(Sequence sequence) {
        blocks.reserve(sequence);
    }

    /** Admits the token of a host sequence to layer 0, to advance as its attention results return. */
    public void admit(Sequence sequence) {
        blocks.take(sequence, KvTier.HOST);
        admissions.add(sequence);
        admittedTokens += state.kv().span().tokens(sequence.length());
    }

    /** Has an in-flight token finish within this step. */
    public void resume(Sequence sequence) {
        resumed.add(sequence);
    }

    /**
     * Pauses an in-flight token, so that its sequence can move to the GPU, and keeps room for that: prompts of this
     * draft do not take it. The token begins anew there.
     */
    public void pauseToReturn(Sequence sequence) {
        blocks.reserveForReturn(sequence);
        paused.add(sequence);
    }

    /** In-flight sequences whose token this step pauses. */
    public List<Sequence> paused() {
        return paused;
    }

    /** Whether an empty GPU could stage a prompt of {@code tokens}, in however many chunks. */
    public boolean couldStage(int tokens) {
        PrefillStaging staging = state.kv().staging();
        int staged = Math.min(tokens, state.kv().layout().widest().maxHeld());
        return staged <= staging.maxTokens()
                && staging.blocks(staging.max(staged))
                        <= state.kv().pool(KvTier.GPU).size();
    }

    /** Max tokens of the sequence's prompt, up to {@code rows}, that this step may still offload to the host. */
    public int prefillOffloadRoom(Sequence sequence, int rows) {
        PrefillStaging staging = state.kv().staging();
        int used = staged.gpuBlocks() * staging.blockTokens();
        int max = Math.min(rows, staging.maxTokens() - used - stagedBefore(startOnHost(sequence)));
        if (max <= 0 || canStage(sequence, max)) {
            return Math.max(0, max);
        }
        int fits = 0;
        int tooMany = max;
        while (tooMany - fits > 1) {
            int middle = (fits + tooMany) / 2;
            if (canStage(sequence, middle)) {
                fits = middle;
            } else {
                tooMany = middle;
            }
        }
        return fits;
    }

    private boolean canStage(Sequence sequence, int rows) {
        PrefillStaging staging = state.kv().staging();
        return staging.blocks(staged.plus(staging.need(stagedBefore(startOnHost(sequence)), rows)))
                <= blocks.borrowableBeside(sequence);
    }

    /** Of the tokens before a chunk that is offloaded, those that are staged: the others lie behind its window. */
    private int stagedBefore(int start) {
        return start - state.kv().layout().widest().start(start);
    }

    /** Tokens before those that the sequence computes next, if it is on the host or starts there. */
    private int startOnHost(Sequence sequence) {
        return sequence.state() == RequestState.WAITING ? hostHit(sequence) : sequence.computed();
    }

    private PrefillStaging.Need staged(Row row) {
        return row.site() == AttentionSite.GPU_PREFILL_OFFLOAD
                ? state.kv().staging().need(stagedBefore(row.start()), row.rows())
                : PrefillStaging.Need.NOTHING;
    }

    /** Sets how many in-flight tokens may continue at each layer. */
    public void slots(int count) {
        slots = count;
    }

    /** In-flight tokens that may continue at each layer. */
    public int slots() {
        return slots;
    }

    /** Says that all in-flight tokens stand at one layer, so that only that layer computes them (APEX §3.3). */
    public void cohort() {
        cohort = true;
    }

    /** True when all in-flight tokens stand at one layer. */
    public boolean isCohort() {
        return cohort;
    }

    private void append(int batch, Row row) {
        batches.get(batch).add(row);
        loads.get(batch).add(row, 1);
        staged = staged.plus(staged(row));
    }

    /** Removes the decode that was added last to a sub-batch, if the CPU computes its attention. */
    public void removeLastCpuRow(int batch) {
        Row last = batches.get(batch).getLast();
        if (last.site() != AttentionSite.CPU_FROM_HOST) {
            throw new IllegalStateException("the last row of sub-batch " + batch + " is not the CPU's: " + last);
        }
        batches.get(batch).removeLast();
        loads.get(batch).add(last, -1);
        blocks.give(last.sequence(), KvTier.HOST);
    }

    /** Removes every decode whose attention the CPU computes (NEO §3.2, step 6). */
    public void removeCpuRows() {
        for (int batch = 0; batch < 2; batch++) {
            Load load = loads.get(batch);
            batches.get(batch).removeIf(row -> {
                boolean cpu = row.site() == AttentionSite.CPU_FROM_HOST;
                if (cpu) {
                    load.add(row, -1);
                    blocks.give(row.sequence(), KvTier.HOST);
                }
                return cpu;
            });
        }
    }
}
