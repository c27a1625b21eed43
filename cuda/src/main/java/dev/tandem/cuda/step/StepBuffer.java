package dev.tandem.cuda.step;

import static java.lang.foreign.ValueLayout.JAVA_FLOAT;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.tandem.cuda.device.Device;
import dev.tandem.cuda.device.DeviceBuffer;
import dev.tandem.cuda.device.PinnedBuffer;
import dev.tandem.cuda.device.Resources;
import dev.tandem.cuda.device.Stream;
import dev.tandem.cuda.forward.SmPartition;
import dev.tandem.cuda.forward.StepInputs;
import dev.tandem.cuda.hostattention.HostLinkMemory;
import dev.tandem.cuda.hostattention.HostToken;
import dev.tandem.cuda.kernels.ModelShape;
import dev.tandem.cuda.sampling.SamplingInputs;
import dev.tandem.engine.sampling.Adjustments;
import dev.tandem.engine.sampling.TokenSampler;
import java.lang.foreign.MemorySegment;

/**
 * What a sub-batch's kernels read besides weights and KV, as flat integers: written in pinned memory, uploaded once, at
 * fixed addresses so that graphs find it. In this order: counts of decode attention, prompts' attention beside it, and
 * host tokens; token, position and slot of each row; rows to sample; in-flight tokens that enter, with their draws;
 * random draws; tiles of prefill attention; sequences of decode attention; block tables; rows whose logits are
 * adjusted, and how.
 *
 * <p>Owned by: engine thread. What it writes after {@link #clear} does not touch what was uploaded last, so a step's
 * inputs may be written while the step before waits for its own; those before that must be there.
 */
public final class StepBuffer implements StepInputs, SamplingInputs, AutoCloseable {
    private static final int ALIGNMENT = 256;
    private static final int HEADER = 16;
    /** prelude.cu. */
    private static final int PROMPT_BLOCKS_AT = 4;

    private static final int PROMPT_SPLITS_AT = 5;
    /** {@code struct HostTokenTracker} of prelude.cu. */
    private static final int HOST_ROWS_AT = 8;

    private static final int HOST_TASKS_AT = 12;
    private static final int DRAW_INTS = 8;
    private static final int TILE_INTS = 4;
    private static final int SEQUENCE_INTS = 4;
    /** What beginning a (row, KV head) costs decode attention on an H200, in KV blocks of one KV head. */
    private static final int MAX_START_UP_COST = 4;

    private static final int ADJUSTED_INTS = 4;
    /** {@code struct Adjustment} of prelude.cu. */
    private static final int ADJUSTMENT_INTS = 4;

    private final int rows;
    private final int samples;
    private final int tokensAt;
    private final int positionsAt;
    private final int slotsAt;
    private final int samplesAt;
    private final int admittedAt;
    private final int admittedDrawsAt;
    private final int drawsAt;
    private final int tilesAt;
    private final int sequencesAt;
    private final int tablesAt;
    private final int adjustedAt;
    private final int adjustmentsAt;
    private final int maxAdjustments;
    private final DeviceBuffer device;
    private final PinnedBuffer pinned;
    private final MemorySegment[] halves;
    private MemorySegment memory;
    private int sequenceCount;
    private int units;
    private int tileCount;
    private int tileStages;
    private int drawCount;
    private int tableInts;
    private int adjustedCount;
    private int adjustmentCount;
    private boolean reportsLogprobs;

    /**
     * @param tables most block numbers of all sequences of a step
     * @param adjustments most adjustments of all of its logits
     */
    public StepBuffer(Device owner, int rows, int samples, int tiles, int tables, int adjustments, String label) {
        this.rows = rows;
        this.samples = samples;
        this.tokensAt = HEADER;
        this.positionsAt = tokensAt + rows;
        this.slotsAt = positionsAt + rows;
        this.samplesAt = slotsAt + rows;
        this.admittedAt = samplesAt + samples;
        this.admittedDrawsAt = (admittedAt + HostLinkMemory.MAX_SLOTS + 7) / 8 * 8;
        this.drawsAt = admittedDrawsAt + DRAW_INTS * HostLinkMemory.MAX_SLOTS;
        this.tilesAt = drawsAt + DRAW_INTS * samples;
        this.sequencesAt = (tilesAt + TILE_INTS * tiles + 7) / 8 * 8;
        this.tablesAt = sequencesAt + SEQUENCE_INTS * rows;
        this.adjustedAt = (tablesAt + tables + 3) / 4 * 4;
        this.adjustmentsAt = adjustedAt + ADJUSTED_INTS * samples;
        this.maxAdjustments = adjustments;
        long bytes =
                (4L * (adjustmentsAt + (long) ADJUSTMENT_INTS * adjustments) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        this.device = owner.allocate(bytes, "inputs of " + label);
        this.pinned = owner.pinned(2 * bytes, "inputs of " + label);
        this.halves = new MemorySegment[] {
            pinned.memory().asSlice(0, bytes), pinned.memory().asSlice(bytes, bytes)
        };
        this.memory = halves[0];
    }

    public int rowCapacity() {
        return rows;
    }

    public long bytes() {
        return device.bytes();
    }

    /** Begins the next inputs. */
    public void clear() {
        memory = memory == halves[0] ? halves[1] : halves[0];
        sequenceCount = 0;
        units = 0;
        tileCount = 0;
        tileStages = 0;
        drawCount = 0;
        tableInts = 0;
        adjustedCount = 0;
        adjustmentCount = 0;
        reportsLogprobs = false;
    }

    /** @param slot of the row's KV in the pool; -1 stores nothing, less says whose numbers a host token uses */
    public void row(int row, int token, int position, int slot) {
        set(tokensAt + row, token);
        set(positionsAt + row, position);
        set(slotsAt + row, slot);
    }

    /** A row that the CPU attends to while the step waits. */
    public void hostToken(int row, int token, int position, HostToken hostToken) {
        row(row, token, position, -2 - hostToken.index);
    }

    /**
     * Where host tokens are and how their tasks are numbered.
     *
     * @param all host tokens of all sub-batches of the step
     * @param before of the sub-batches before this one
     * @param tasks number of the step's first
     */
    public void hostTokens(int first, int count, int all, int before, long tasks) {
        set(HOST_ROWS_AT, first);
        set(HOST_ROWS_AT + 1, count);
        set(HOST_ROWS_AT + 2, all);
        set(HOST_ROWS_AT + 3, before);
        memory.set(JAVA_LONG, 4L * HOST_TASKS_AT, tasks);
    }

    public void sample(int index, int row) {
        set(samplesAt + index, row);
    }

    /** Appends a block table; returns where it starts. */
    public int table(int[] blocks, int count) {
        int at = tableInts;
        MemorySegment.copy(blocks, 0, memory, JAVA_INT, 4L * (tablesAt + at), count);
        tableInts += count;
        return at;
    }

    /** KV blocks of all (row, KV head) of decode attention. */
    int units() {
        return units;
    }

    /** Stages of the context of all tiles, of one KV head. */
    int tileStages() {
        return tileStages;
    }

    /** A row of decode attention: rows 0, 1, ... in turn. */
    public void decode(int length, int table, int kvHeads) {
        int blocks = (length - 1) / ModelShape.BLOCK_TOKENS + 1;
        int at = sequencesAt + SEQUENCE_INTS * sequenceCount++;
        set(at, units);
        set(at + 1, length);
        set(at + 2, table);
        set(at + 3, blocks);
        units += blocks * kvHeads;
    }

    /**
     * Over how many thread blocks decode attention is spread: none should have less than {@code minUnits}, unless it
     * could leave a whole (row, KV head) to another. Where there are units each has one, for all are counted as
     * sharing; slots alone have a block each. A pair begins with a gap, of at most a third of what a thread block has.
     */
    public void spread(int residentBlocks, int minUnits, int kvHeads, int slots) {
        int wanted = units == 0 ? slots : Math.max(units / minUnits, sequenceCount * kvHeads);
        int sharing = Math.max(1, Math.min(residentBlocks, wanted));
        int gap = Math.min(MAX_START_UP_COST, units / sharing / 3);
        set(1, units + gap * sequenceCount * kvHeads);
        set(2, sharing);
        set(3, gap);
        for (int row = 0, first = 0; row < sequenceCount; row++) {
            int at = sequencesAt + SEQUENCE_INTS * row;
            set(at, first);
            first += (memory.get(JAVA_INT, 4L * (at + 3)) + gap) * kvHeads;
        }
    }

    /** How prompts' attention is cut where decode attention is the kernel after it. */
    public void prompts(int blocks, int splits) {
        set(PROMPT_BLOCKS_AT, blocks);
        set(PROMPT_SPLITS_AT, splits);
    }

    void tile(int row, int count, int position, int table) {
        tileStages += SmPartition.stages(position + count);
        int at = tilesAt + TILE_INTS * tileCount++;
        set(at, row);
        set(at + 1, count);
        set(at + 2, position);
        set(at + 3, table);
    }

    /**
     * @param index of the sampled row
     * @param adjustments what comes before, where the draw says so; there is {@link #adjustmentRoom} for them
     */
    public void draw(int index, TokenSampler.Draw draw, Adjustments adjustments) {
        draw(drawsAt + DRAW_INTS * drawCount++, index, draw);
        reportsLogprobs |= draw.logprobs() >= 0;
        if (draw.adjusted()) {
            adjust(index, adjustments);
        }
    }

    private void adjust(int index, Adjustments adjustments) {
        int at = adjustedAt + ADJUSTED_INTS * adjustedCount++;
        set(at, index);
        set(at + 1, adjustmentCount);
        set(at + 2, adjustments.count());
        for (int i = 0; i < adjustments.count(); i++) {
            int entry = adjustmentsAt + ADJUSTMENT_INTS * adjustmentCount++;
            set(entry, adjustments.token(i));
            set(entry + 1, adjustments.bias(i));
            set(entry + 2, adjustments.repetition(i));
            set(entry + 3, adjustments.penalty(i));
        }
    }

    /** Adjustments that a further row may have. */
    public int adjustmentRoom() {
        return maxAdjustments - adjustmentCount;
    }

    @Override
    public int adjustedCount() {
        return adjustedCount;
    }

    /** Whether log-probabilities of some row are wanted. */
    boolean reportsLogprobs() {
        return reportsLogprobs;
    }

    private void draw(int at, int index, TokenSampler.Draw draw) {
        set(at, (float) draw.temperature());
        set(at + 1, (float) draw.topP());
        set(at + 2, (float) draw.minP());
        set(at + 3, (float) draw.uniform());
        set(at + 4, draw.topK());
        set(at + 5, index);
        set(at + 6, draw.logprobs() + 1);
        set(at + 7, draw.adjusted() ? 1 : 0);
    }

    /** A in-flight token that enters layer 0 in a slot. */
    void admit(int slot, HostToken hostToken) {
        set(admittedAt + slot, hostToken.index);
        int at = admittedDrawsAt + DRAW_INTS * slot;
        set(at, 0f);
        set(at + 6, 0);
        hostToken.draw.ifPresent(draw -> draw(at, 0, draw));
    }

    /** Nobody enters in this slot. */
    void admitNobody(int slot) {
        set(admittedAt + slot, -1);
    }

    private void set(int at, int value) {
        memory.set(JAVA_INT, 4L * at, value);
    }

    private void set(int at, float value) {
        memory.set(JAVA_FLOAT, 4L * at, value);
    }

    /** Appends tiles without rows. */
    void fillTiles(int count) {
        while (tileCount < count) {
            tile(0, 0, 0, 0);
        }
    }

    public int tileCount() {
        return tileCount;
    }

    int drawCount() {
        return drawCount;
    }

    public void upload(Stream stream) {
        set(0, sequenceCount);
        stream.upload(device, 0, memory, 4L * (sequencesAt + SEQUENCE_INTS * sequenceCount));
        if (tableInts > 0) {
            stream.upload(device, 4L * tablesAt, memory.asSlice(4L * tablesAt), 4L * tableInts);
        }
        if (adjustedCount > 0) {
            long last = adjustmentsAt + (long) ADJUSTMENT_INTS * adjustmentCount;
            stream.upload(device, 4L * adjustedAt, memory.asSlice(4L * adjustedAt), 4L * (last - adjustedAt));
        }
    }

    @Override
    public long header() {
        return device.address();
    }

    @Override
    public long tokens() {
        return device.address() + 4L * tokensAt;
    }

    @Override
    public long positions() {
        return device.address() + 4L * positionsAt;
    }

    @Override
    public long slots() {
        return device.address() + 4L * slotsAt;
    }

    @Override
    public long samples() {
        return device.address() + 4L * samplesAt;
    }

    @Override
    public long admitted() {
        return device.address() + 4L * admittedAt;
    }

    @Override
    public long admittedDraws() {
        return device.address() + 4L * admittedDrawsAt;
    }

    @Override
    public long draws() {
        return device.address() + 4L * drawsAt;
    }

    @Override
    public long adjusted() {
        return device.address() + 4L * adjustedAt;
    }

    @Override
    public long adjustments() {
        return device.address() + 4L * adjustmentsAt;
    }

    @Override
    public long tiles() {
        return device.address() + 4L * tilesAt;
    }

    @Override
    public long sequences() {
        return device.address() + 4L * sequencesAt;
    }

    @Override
    public long tables() {
        return device.address() + 4L * tablesAt;
    }

    @Override
    public void close() {
        Resources.closeAll(device, pinned);
    }
}
