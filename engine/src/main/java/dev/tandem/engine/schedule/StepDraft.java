package dev.tandem.engine.schedule;

import dev.tandem.engine.kv.KvCache;
import dev.tandem.engine.kv.KvTier;
import dev.tandem.engine.kv.Swap;
import dev.tandem.engine.request.RequestState;
import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.step.Admission;
import dev.tandem.engine.step.AttentionSite;
import dev.tandem.engine.step.Chunk;
import dev.tandem.engine.step.StepPlan;
import dev.tandem.engine.step.SubBatch;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/**
 * A step in the making. Policies move sequences and add rows; blocks are counted but nothing in the state changes until
 * {@link #commit()}, so several drafts can be made of one state and all but one dropped.
 *
 * <p>Owned by: engine thread.
 */
public final class StepDraft {
    /** One sequence's part in the step. */
    public record Row(Sequence sequence, int rows, AttentionSite site) {
        /** One token, whose KV is all there but for its own. */
        public boolean decodes() {
            return sequence.computed() > 0 && sequence.remaining() == 1;
        }
    }

    private final SchedulerState state;
    private final Budget budget;
    private final KvCache kv;
    private int freeGpu;
    private int freeHost;
    private int gpuSequences;
    private final List<Sequence> drops = new ArrayList<>();
    private final List<Sequence> outs = new ArrayList<>();
    private final List<Sequence> ins = new ArrayList<>();
    private final Set<Sequence> moved = new HashSet<>();
    private final List<Row> starts = new ArrayList<>();
    private final Map<KvTier, KvDemandForecast> forecasts = new EnumMap<>(KvTier.class);
    private final List<Sequence> bypassed = new ArrayList<>();
    private final List<List<Row>> batches = List.of(new ArrayList<>(), new ArrayList<>());
    private final List<Load> loads = List.of(new Load(), new Load());
    private final List<Sequence> admissions = new ArrayList<>();
    private final List<Sequence> resumed = new ArrayList<>();
    private long admittedTokens;
    private int slots;
    private Shape shape = Shape.GPU_ONLY;
    private boolean notesRotation;

    public StepDraft(SchedulerState state, Budget budget) {
        this.state = state;
        this.budget = budget;
        this.kv = state.kv();
        this.freeGpu = kv.pool(KvTier.GPU).free();
        this.freeHost = kv.pool(KvTier.HOST).free();
        this.gpuSequences = state.gpu().size();
    }

    public SchedulerState state() {
        return state;
    }

    public Budget budget() {
        return budget;
    }

    public int freeGpu() {
        return freeGpu;
    }

    public int freeHost() {
        return freeHost;
    }

    /** Sequences that hold GPU blocks once the draft is done. */
    public int gpuSequences() {
        return gpuSequences;
    }

    public Shape shape() {
        return shape;
    }

    public void shape(Shape next) {
        shape = next;
    }

    public List<Row> rows(int batch) {
        return batches.get(batch);
    }

    public Load load(int batch) {
        return loads.get(batch);
    }

    /** Rows of both sub-batches and the step's admissions. */
    public int totalRows() {
        return loads.get(0).rows() + loads.get(1).rows() + admissions.size();
    }

    /** Sequences moved out of GPU blocks by this draft, in the order they were. */
    public List<Sequence> outs() {
        return outs;
    }

    public List<Sequence> ins() {
        return ins;
    }

    public List<Sequence> admissions() {
        return admissions;
    }

    /** Tokens of context of the admitted rows. */
    public long admittedTokens() {
        return admittedTokens;
    }

    public List<Sequence> resumed() {
        return resumed;
    }

    /** Whether the step gives the host anything: rows to read, to admit or to finish, or prompts that land there. */
    public boolean offloads() {
        return loads.get(0).cpuRows() + loads.get(1).cpuRows() + admissions.size() + resumed.size() > 0
                || loads.get(0).prefillOffloadTokens() > 0;
    }

    public boolean isEmpty() {
        return loads.get(0).rows() + loads.get(1).rows() + admissions.size() + resumed.size() == 0
                && outs.isEmpty()
                && ins.isEmpty()
                && drops.isEmpty();
    }

    /** Blocks the sequence lacks for all of its known tokens, after the draft's moves. */
    public int missing(Sequence sequence) {
        if (!moved.isEmpty() && moved.contains(sequence)) {
            KvTier tier = ins.contains(sequence) ? KvTier.GPU : KvTier.HOST;
            return kv.blocksFor(tier, sequence.length()) - kv.blocksFor(tier, sequence.computed());
        }
        return kv.missing(sequence, sequence.length());
    }

    /**
     * Whether a tier will have room for one sequence more to its end, as far as can be foreseen
     * ({@link KvDemandForecast}). An empty one has: it holds any sequence that was accepted.
     */
    public boolean roomToGrow(KvTier tier, Sequence candidate) {
        KvDemandForecast forecast = forecasts.computeIfAbsent(tier, this::forecast);
        int free = tier == KvTier.GPU ? freeGpu : freeHost;
        return forecast.isEmpty() || kv.blocksFor(tier, forecast.maxWith(candidate)) <= free;
    }

    /** Of those that hold blocks there once the draft is done. */
    private KvDemandForecast forecast(KvTier tier) {
        KvDemandForecast forecast = new KvDemandForecast(state.outputs());
        for (Sequence holder : tier == KvTier.GPU ? state.gpu() : state.host()) {
            if (!moved.contains(holder) && !drops.contains(holder)) {
                forecast.add(holder);
            }
        }
        if (tier == KvTier.HOST) {
            state.inFlight().forEach(forecast::add);
        }
        (tier == KvTier.GPU ? ins : outs).forEach(forecast::add);
        for (Row row : starts) {
            if (row.site().tier() == tier) {
                forecast.add(row.sequence());
            }
        }
        return forecast;
    }

    /** Whether a sequence may live on the host to its end. */
    public boolean fitsHost(Sequence sequence) {
        return kv.blocksFor(KvTier.HOST, sequence.limit())
                <= kv.pool(KvTier.HOST).size();
    }

    /** Whether the host has room for the sequence's computed KV and the block that its next token may need. */
    public boolean hostHasRoomFor(Sequence sequence) {
        return kv.blocksFor(KvTier.HOST, sequence.length()) <= freeHost;
    }

    /**
     * Takes a sequence out of GPU blocks: to the host where it may go there and fits, else it is dropped and computed
     * again. A prompt half computed is dropped: no decode needs its KV yet.
     */
    public void evict(Sequence sequence, boolean toHost) {
        forecasts.clear();
        gpuSequences--;
        freeGpu += sequence.table().count();
        if (toHost && sequence.remaining() == 1 && hostHasRoomFor(sequence)) {
            freeHost -= kv.blocksFor(KvTier.HOST, sequence.computed());
            outs.add(sequence);
            moved.add(sequence);
        } else {
            drops.add(sequence);
        }
    }

    /** Gives up a host sequence's KV; it is computed again. */
    public void dropFromHost(Sequence sequence) {
        forecasts.remove(KvTier.HOST);
        freeHost += sequence.table().count();
        drops.add(sequence);
    }

    /** Sequences whose KV is given up. */
    public List<Sequence> drops() {
        return drops;
    }

    /** Brings a host sequence into GPU blocks, which the caller has seen to be there. */
    public void bringIn(Sequence sequence) {
        forecasts.clear();
        freeGpu -= kv.blocksFor(KvTier.GPU, sequence.computed());
        freeHost += sequence.table().count();
        gpuSequences++;
        ins.add(sequence);
        moved.add(sequence);
    }

    /** Undoes {@link #add} of a GPU row to batch 0. */
    private void remove(int index) {
        Row row = batches.get(0).remove(index);
        loads.get(0).add(row, -1);
        freeGpu += missing(row.sequence());
    }

    /** A GPU row's sequence leaves for the host, and a host sequence takes its place; the caller has seen both fit. */
    public void replace(int index, Sequence out, Sequence in, AttentionSite site) {
        remove(index);
        evict(out, true);
        bringIn(in);
        add(0, in, 1, site);
    }

    /** Notes that this draft was the occasion to rotate sequences between the tiers, whether any did or not. */
    public void noteRotation() {
        notesRotation = true;
    }

    public boolean notesRotation() {
        return notesRotation;
    }

    /** Starts a waiting sequence; all of its known tokens get blocks where the reader expects them. */
    public void start(Sequence sequence, int rows, AttentionSite site) {
        Row row = new Row(sequence, rows, site);
        starts.add(row);
        if (forecasts.containsKey(site.tier())) {
            forecasts.get(site.tier()).add(sequence);
        }
        int blocks = kv.blocksFor(site.tier(), sequence.length());
        if (site.tier() == KvTier.GPU) {
            freeGpu -= blocks;
            gpuSequences++;
        } else {
            freeHost -= blocks;
        }
        append(0, row);
    }

    /**
     * Notes that the sequence that starts next does so before this one, which is ahead of it in line; once for each.
     */
    public void bypass(Sequence waiting) {
        bypassed.add(waiting);
    }

    /** Undoes {@link #start} of a sequence that was to land on the host. */
    public void removePrefillOffload(int index) {
        Row row = batches.get(0).remove(index);
        loads.get(0).add(row, -1);
        starts.remove(row);
        forecasts.remove(KvTier.HOST);
        freeHost += kv.blocksFor(KvTier.HOST, row.sequence().length());
    }

    /** Adds rows of a sequence that holds KV, or is moved by this draft; takes the blocks they lack. */
    public void add(int batch, Sequence sequence, int rows, AttentionSite site) {
        take(sequence, site.tier());
        append(batch, new Row(sequence, rows, site));
    }

    /** Admits a host token to layer 0. */
    public void admit(Sequence sequence) {
        take(sequence, KvTier.HOST);
        admissions.add(sequence);
        admittedTokens += sequence.length();
    }

    /** A in-flight token finishes within this step. */
    public void resume(Sequence sequence) {
        resumed.add(sequence);
    }

    /** Tokens that may yet be in staging in this step, of prompts that land on the host. */
    public int prefillOffloadRoom() {
        return (int) (budget.maxBatchTokens() - loads.get(0).prefillOffloadTokens());
    }

    /** In-flight tokens that a layer may pick up. */
    public void slots(int count) {
        slots = count;
    }

    public int slots() {
        return slots;
    }

    private void take(Sequence sequence, KvTier tier) {
        int missing = missing(sequence);
        if (tier == KvTier.GPU) {
            freeGpu -= missing;
        } else {
            freeHost -= missing;
        }
    }

    private void append(int batch, Row row) {
        batches.get(batch).add(row);
        loads.get(batch).add(row, 1);
    }

    /** Leaves out every decode row that the CPU would read (NEO §3.2, step 6). */
    public void removeCpuRows() {
        for (int batch = 0; batch < 2; batch++) {
            Load load = loads.get(batch);
            batches.get(batch).removeIf(row -> {
                boolean cpu = row.site() == AttentionSite.CPU_FROM_HOST;
                if (cpu) {
                    load.add(row, -1);
                    freeHost += missing(row.sequence());
                }
                return cpu;
            });
        }
    }

    /** Carries the draft out: grants and frees blocks, moves sequences between queues, numbers the step. */
    public StepPlan commit() {
        drops.forEach(this::drop);
        bypassed.forEach(sequence -> sequence.timings().countBypassed());
        List<Swap> swaps = new ArrayList<>(outs.size() + ins.size());
        outs.forEach(sequence -> swaps.add(move(sequence, KvTier.HOST)));
        ins.forEach(sequence -> swaps.add(move(sequence, KvTier.GPU)));
        List<SubBatch> subBatches = new ArrayList<>(2);
        for (List<Row> rows : batches) {
            if (!rows.isEmpty()) {
                subBatches.add(new SubBatch(chunks(rows)));
            }
        }
        List<Admission> admitted = admissions.isEmpty() ? List.of() : new ArrayList<>(admissions.size());
        for (Sequence sequence : admissions) {
            grow(sequence);
            int position = sequence.computed();
            admitted.add(new Admission(
                    sequence.key(),
                    position,
                    sequence.token(position),
                    sequence.table().toArray(),
                    sequence.sampler()));
            state.enterInFlight(sequence);
        }
        int inFlight = state.inFlight().size();
        state.scheduled(batches.get(0).size() + batches.get(1).size() + inFlight);
        List<Long> resume = resumed.stream().map(Sequence::key).toList();
        return new StepPlan(
                state.nextStep(), swaps, subBatches, admitted, slotsFor(inFlight), state.takePark(), resume);
    }

    /** In-flight tokens go on under strategies that have no slots too: they hold blocks and a client waits. */
    private int slotsFor(int inFlight) {
        if (inFlight == 0) {
            return 0;
        }
        return slots > 0 ? slots : 1 + inFlight / 8;
    }

    private void drop(Sequence sequence) {
        state.gpu().remove(sequence);
        state.host().remove(sequence);
        state.countPreemption();
        sequence.tiers().countPreemption();
        kv.release(sequence);
        sequence.restart();
        sequence.state(RequestState.WAITING);
        state.waiting().add(sequence);
    }

    private Swap move(Sequence sequence, KvTier to) {
        (to == KvTier.HOST ? state.gpu() : state.host()).remove(sequence);
        if (to == KvTier.HOST) {
            state.countPreemption();
            sequence.tiers().countPreemption();
        }
        Swap swap = kv.move(sequence, to)
                .orElseThrow(() -> new IllegalStateException(sequence + " was to move to " + to + " without room"));
        state.settle(sequence);
        return swap;
    }

    private List<Chunk> chunks(List<Row> rows) {
        List<Chunk> chunks = new ArrayList<>(rows.size());
        for (Row row : rows) {
            Sequence sequence = row.sequence();
            if (sequence.state() == RequestState.WAITING) {
                state.waiting().remove(sequence);
                kv.assignTier(sequence, row.site().tier());
                state.settle(sequence);
            }
            grow(sequence);
            boolean last = row.rows() == sequence.remaining();
            chunks.add(new Chunk(
                    sequence.key(),
                    sequence.computed(),
                    sequence.tokens(sequence.computed(), row.rows()),
                    sequence.table().toArray(),
                    row.site(),
                    last ? Optional.of(sequence.sampler()) : Optional.empty()));
        }
        return chunks;
    }

    private void grow(Sequence sequence) {
        if (!kv.grow(sequence, sequence.length())) {
            throw new IllegalStateException(sequence + " was scheduled without blocks for its tokens");
        }
    }
}
