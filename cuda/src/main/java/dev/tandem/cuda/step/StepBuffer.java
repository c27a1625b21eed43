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
import dev.tandem.cuda.hostattention.HostToken;
import dev.tandem.cuda.kernels.KernelConstants;
import dev.tandem.cuda.kernels.ModelShape;
import dev.tandem.cuda.sampling.SamplingInputs;
import dev.tandem.engine.kv.KvLayout;
import dev.tandem.engine.kv.KvView;
import dev.tandem.engine.sampling.Adjustments;
import dev.tandem.engine.sampling.TokenSampler;
import dev.tandem.model.config.SlidingWindow;
import java.lang.foreign.MemorySegment;
import java.util.Arrays;
import java.util.List;

/**
 * The inputs of a sub-batch's kernels besides weights and KV, as flat integers. The engine thread writes them to pinned
 * memory and uploads them once per step, to fixed addresses that CUDA graphs can read.
 *
 * <p>In this order: a header with the counts of decode attention, of prompts' attention beside it, and of same-layer
 * tokens; token and position per row, and its KV slot in each group of layers; rows to sample; in-flight tokens that
 * enter, with their draws; resumed tokens; random draws; tiles of prefill attention; sequences of decode attention;
 * block tables of each group; rows with adjusted logits, and the adjustments; sequences of decode attention in layers
 * with a sliding window.
 *
 * <p>All groups of one kind ({@link KvLayout.Kind}) hold the same blocks of a sequence, so its table begins at one
 * place in each of them. There are at most two kinds, with a window and without. Where there are two, windowed layers
 * have tiles of their own, which differ from the others in the place of the table.
 *
 * <p>Owned by: engine thread. The pinned memory has two halves that take turns at {@link #clear}. So a step's inputs
 * may be written while the upload of the step before is outstanding; earlier uploads must have ended.
 */
public final class StepBuffer implements StepInputs, SamplingInputs, AutoCloseable {
    private static final int ALIGNMENT = 256;
    private static final int HEADER = 24;
    /** {@code struct BatchHostTokens} of prelude.cu, which asserts its size of 24 bytes: four ints and a long. */
    private static final int HOST_TOKENS_AT = KernelConstants.HEADER_HOST_TOKENS;

    private static final int HOST_TASKS_AT = HOST_TOKENS_AT + 4;
    /** {@code struct Draw} of prelude.cu, which asserts its size. */
    private static final int DRAW_INTS = 8;

    private static final int TILE_INTS = 4;
    /** Of tiles without rows. */
    private static final Table NO_TABLE = new Table(0, 0);

    /** Where the header has the counts of decode attention in layers with a sliding window. */
    private static final int WINDOWED_AT = 16;

    private static final int SEQUENCE_INTS = 4;
    /** Start-up cost of a (row, KV head) in decode attention, in KV blocks of one KV head; measured on an H200. */
    private static final int START_UP_COST = 4;

    private static final int ADJUSTED_INTS = 4;
    /** {@code struct Adjustment} of prelude.cu, which asserts its size. */
    private static final int ADJUSTMENT_INTS = 4;

    private final int rows;
    private final int samples;
    private final int tokensAt;
    private final int positionsAt;
    private final int slotsAt;
    private final int samplesAt;
    private final int admittedAt;
    private final int admittedDrawsAt;
    private final int resumedAt;
    private final int drawsAt;
    private final int tilesAt;
    /** The same as {@code tilesAt} where there is one kind of layers. */
    private final int windowedTilesAt;

    private final int sequencesAt;
    /** [groups] */
    private final int[] tablesAt;

    private final TableSizes sizes;
    /** Those of the layout, as an array because they are read for every row. */
    private final KvLayout.Kind[] kinds;

    private final int adjustedAt;
    private final int adjustmentsAt;
    private final int maxAdjustments;
    /** Decode attention of the layers without a window, and of those with one. */
    private final DecodeList all;

    private final DecodeList windowed;
    private final DeviceBuffer device;
    private final PinnedBuffer pinned;
    private final MemorySegment[] halves;
    private int half;
    private MemorySegment memory;
    private int tileCount;
    private int tileStages;
    private int drawCount;
    /** [kinds] block numbers in each group of a kind. */
    private final int[] tableInts;

    private int adjustedCount;
    private int adjustmentCount;
    private boolean reportsLogprobs;

    /**
     * Where a sequence's block tables would have its first block. That may lie before all tables: kernels add the index
     * of a block, and read none before the window's.
     *
     * @param all in layers without a window, and where all layers have the same
     * @param windowed in layers with a window
     */
    public record Table(int all, int windowed) {}

    /**
     * @param slots max slots and resumed tokens
     * @param sizes of the block tables
     * @param adjustments max adjustments of all of its logits
     * @throws IllegalArgumentException when there are more than two kinds of layers
     */
    public StepBuffer(
            Device owner,
            int rows,
            int samples,
            int slots,
            int tiles,
            TableSizes sizes,
            int adjustments,
            String label) {
        this.kinds = sizes.layout().kinds().toArray(new KvLayout.Kind[0]);
        if (kinds.length > 2) {
            throw new IllegalArgumentException(
                    "the layers have " + kinds.length + " sizes of windows; the GPU kernels have tiles for 2");
        }
        this.sizes = sizes;
        this.tableInts = new int[kinds.length];
        this.rows = rows;
        this.samples = samples;
        this.tokensAt = HEADER;
        this.positionsAt = tokensAt + rows;
        this.slotsAt = positionsAt + rows;
        this.samplesAt = slotsAt + rows * sizes.layout().groups();
        this.admittedAt = samplesAt + samples;
        this.admittedDrawsAt = (admittedAt + slots + 7) / 8 * 8;
        this.resumedAt = admittedDrawsAt + DRAW_INTS * slots;
        this.drawsAt = (resumedAt + slots + 7) / 8 * 8;
        this.tilesAt = drawsAt + DRAW_INTS * samples;
        this.windowedTilesAt = tilesAt + (kinds.length - 1) * TILE_INTS * tiles;
        this.sequencesAt = (windowedTilesAt + TILE_INTS * tiles + 7) / 8 * 8;
        int firstTable = sequencesAt + SEQUENCE_INTS * rows;
        this.tablesAt =
                Arrays.stream(sizes.starts()).map(start -> firstTable + start).toArray();
        this.adjustedAt = (firstTable + sizes.total() + 3) / 4 * 4;
        this.adjustmentsAt = adjustedAt + ADJUSTED_INTS * samples;
        this.maxAdjustments = adjustments;
        this.all = new DecodeList(0, sequencesAt);
        this.windowed = new DecodeList(WINDOWED_AT, adjustmentsAt + ADJUSTMENT_INTS * adjustments);
        long ints = windowed.sequencesAt + (long) SEQUENCE_INTS * rows;
        long bytes = (4L * ints + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        this.device = owner.allocate(bytes, "inputs of " + label);
        try {
            this.pinned = owner.pinned(2 * bytes, "inputs of " + label);
        } catch (RuntimeException | Error e) {
            Resources.closeAfter(e, List.of(device));
            throw e;
        }
        this.halves = new MemorySegment[] {
            pinned.memory().asSlice(0, bytes), pinned.memory().asSlice(bytes, bytes)
        };
        this.memory = halves[half];
    }

    public int rowCapacity() {
        return rows;
    }

    /** Max sampled rows. */
    int sampleCapacity() {
        return samples;
    }

    public long bytes() {
        return device.bytes();
    }

    /** Starts the next step's inputs. */
    public void clear() {
        half = 1 - half;
        memory = halves[half];
        all.clear();
        windowed.clear();
        tileCount = 0;
        tileStages = 0;
        drawCount = 0;
        Arrays.fill(tableInts, 0);
        adjustedCount = 0;
        adjustmentCount = 0;
        reportsLogprobs = false;
    }

    /** Writes a row whose KV is stored nowhere. */
    public void row(int row, int token, int position) {
        row(row, token, position, -1);
    }

    /** Writes the row of a same-layer token. */
    public void hostToken(int row, int token, int position, HostToken hostToken) {
        row(row, token, position, -2 - hostToken.index);
    }

    private void row(int row, int token, int position, int slot) {
        set(tokensAt + row, token);
        set(positionsAt + row, position);
        for (int group = 0; group < tablesAt.length; group++) {
            set(slotsAt + group * rows + row, slot);
        }
    }

    /**
     * Writes a row whose KV is stored in the pool.
     *
     * @param kv [groups] the blocks of its sequence, that of its position included
     */
    public void row(int row, int token, int position, List<KvView> kv) {
        set(tokensAt + row, token);
        set(positionsAt + row, position);
        for (int group = 0; group < tablesAt.length; group++) {
            int block = kv.get(group).block(position / ModelShape.BLOCK_TOKENS);
            set(slotsAt + group * rows + row, block * ModelShape.BLOCK_TOKENS + position % ModelShape.BLOCK_TOKENS);
        }
    }

    /**
     * Writes where the same-layer tokens are and how their tasks are numbered.
     *
     * @param all same-layer tokens of all sub-batches of the step
     * @param before same-layer tokens of the sub-batches before this one
     * @param tasks number of the step's first task
     */
    public void hostTokens(int first, int count, int all, int before, long tasks) {
        set(HOST_TOKENS_AT, first);
        set(HOST_TOKENS_AT + 1, count);
        set(HOST_TOKENS_AT + 2, all);
        set(HOST_TOKENS_AT + 3, before);
        memory.set(JAVA_LONG, 4L * HOST_TASKS_AT, tasks);
    }

    /** Samples a row; {@code index} is its place among the sampled rows. */
    public void sample(int index, int row) {
        set(samplesAt + index, row);
    }

    /**
     * Appends a sequence's block table in each group, without the blocks behind the group's window.
     *
     * @param kv [groups] its blocks
     * @param count blocks of the sequence, those behind the window included
     */
    public Table table(List<KvView> kv, int count) {
        int all = table(0, kv, count);
        return new Table(all, kinds.length == 1 ? all : table(1, kv, count));
    }

    /** Appends the tables of a kind's groups; returns where the first block would be in each. */
    private int table(int kind, List<KvView> kv, int count) {
        int at = tableInts[kind];
        int first = kv.get(kinds[kind].first()).first();
        int max = sizes.max().get(kind);
        if (at + count - first > max) {
            throw new IllegalStateException("the block tables of a step have more than " + max
                    + " entries; the engine shares more blocks than ExecutorLimits.maxSharedBlocks");
        }
        for (int group = kinds[kind].first(); group < kinds[kind].end(); group++) {
            int[] blocks = kv.get(group).blocks();
            MemorySegment.copy(blocks, 0, memory, JAVA_INT, 4L * (tablesAt[group] + at), count - first);
        }
        tableInts[kind] = at + count - first;
        return at - first;
    }

    /** Work units of decode attention: the KV blocks of all (row, KV head). */
    int units() {
        return all.units;
    }

    /** Stages of K and V that all tiles of prefill attention read, per KV head. */
    int tileStages() {
        return tileStages;
    }

    /**
     * Adds a row of decode attention; the rows are 0, 1, ... in turn.
     *
     * @param window of the layers that have one; 0 if none has
     */
    public void decode(int length, Table table, int kvHeads, int window) {
        all.add(length, table.all(), kvHeads);
        if (window > 0) {
            int skipped = SlidingWindow.first(length - 1, window) / ModelShape.BLOCK_TOKENS;
            windowed.add(length - skipped * ModelShape.BLOCK_TOKENS, table.windowed() + skipped, kvHeads);
        }
    }

    /**
     * Partitions decode attention over thread blocks. A thread block has at least {@code minUnits} work units, unless
     * there are more (row, KV head) than such blocks. Every thread block counts as one that merges, so each has at
     * least one unit. Without units, each slot has a block. The units of a (row, KV head) follow a start-up cost, which
     * is at most a third of a block's partition.
     */
    public void spread(int residentBlocks, int minUnits, int kvHeads, int slots) {
        all.spread(residentBlocks, minUnits, kvHeads, slots);
        windowed.spread(residentBlocks, minUnits, kvHeads, slots);
    }

    /** The rows of decode attention with the KV blocks that layers of one kind read. */
    private final class DecodeList {
        final int headerAt;
        final int sequencesAt;
        int count;
        int units;

        DecodeList(int headerAt, int sequencesAt) {
            this.headerAt = headerAt;
            this.sequencesAt = sequencesAt;
        }

        void clear() {
            count = 0;
            units = 0;
        }

        void add(int length, int table, int kvHeads) {
            int blocks = (length - 1) / ModelShape.BLOCK_TOKENS + 1;
            int at = sequencesAt + SEQUENCE_INTS * count++;
            set(at, units);
            set(at + 1, length);
            set(at + 2, table);
            set(at + 3, blocks);
            units += blocks * kvHeads;
        }

        void spread(int residentBlocks, int minUnits, int kvHeads, int slots) {
            int wanted = units == 0 ? slots : Math.max(units / minUnits, count * kvHeads);
            int sharing = Math.max(1, Math.min(residentBlocks, wanted));
            int startUpCost = Math.min(START_UP_COST, units / sharing / 3);
            set(headerAt, count);
            set(headerAt + 1, units + startUpCost * count * kvHeads);
            set(headerAt + 2, sharing);
            set(headerAt + 3, startUpCost);
            for (int row = 0, first = 0; row < count; row++) {
                int at = sequencesAt + SEQUENCE_INTS * row;
                set(at, first);
                first += (memory.get(JAVA_INT, 4L * (at + 3)) + startUpCost) * kvHeads;
            }
        }
    }

    /** Writes how prompts' attention is partitioned where decode attention runs beside it. */
    public void prompts(int blocks, int splits) {
        set(KernelConstants.PROMPT_BLOCKS, blocks);
        set(KernelConstants.PROMPT_SPLITS, splits);
    }

    /** Adds a tile of prefill attention: {@code count} rows from {@code row} on, the first at {@code position}. */
    void tile(int row, int count, int position, Table table) {
        tileStages += SmPartition.stages(position + count);
        int shift = TILE_INTS * tileCount++;
        tile(tilesAt + shift, row, count, position, table.all());
        if (windowedTilesAt > tilesAt) {
            tile(windowedTilesAt + shift, row, count, position, table.windowed());
        }
    }

    private void tile(int at, int row, int count, int position, int table) {
        set(at, row);
        set(at + 1, count);
        set(at + 2, position);
        set(at + 3, table);
    }

    /**
     * Adds the draw of a sampled row.
     *
     * @param index of the sampled row
     * @param adjustments of the logits before the draw, if it has any; the caller checks {@link #adjustmentRoom}
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

    /** Max adjustments of a further row. */
    public int adjustmentRoom() {
        return maxAdjustments - adjustmentCount;
    }

    @Override
    public int adjustedCount() {
        return adjustedCount;
    }

    /** Whether some row's request wants log-probabilities. */
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
        set(at + 7, draw.adjusted() || draw.masked() ? 1 : 0);
    }

    /** Writes an in-flight token that enters layer 0 in a slot. */
    void admit(int slot, HostToken hostToken) {
        set(admittedAt + slot, hostToken.index);
        int at = admittedDrawsAt + DRAW_INTS * slot;
        set(at, 0f);
        set(at + 6, 0);
        hostToken.draw.ifPresent(draw -> draw(at, 0, draw));
    }

    /** Writes a resumed token; {@code index} is its place among them. */
    void resume(int index, HostToken hostToken) {
        set(resumedAt + index, hostToken.index);
    }

    /** Leaves a slot empty at layer 0. */
    void admitNone(int slot) {
        set(admittedAt + slot, -1);
    }

    private void set(int at, int value) {
        memory.set(JAVA_INT, 4L * at, value);
    }

    private void set(int at, float value) {
        memory.set(JAVA_FLOAT, 4L * at, value);
    }

    /** Pads with tiles without rows. */
    void fillTiles(int count) {
        while (tileCount < count) {
            tile(0, 0, 0, NO_TABLE);
        }
    }

    public int tileCount() {
        return tileCount;
    }

    int drawCount() {
        return drawCount;
    }

    /** Enqueues the upload of everything written since {@link #clear}. */
    public void upload(Stream stream) {
        stream.upload(device, 0, memory, 4L * (sequencesAt + SEQUENCE_INTS * all.count));
        if (windowed.count > 0) {
            long from = 4L * windowed.sequencesAt;
            stream.upload(device, from, memory.asSlice(from), 4L * SEQUENCE_INTS * windowed.count);
        }
        for (int kind = 0; kind < kinds.length; kind++) {
            if (tableInts[kind] > 0) {
                long from = 4L * tablesAt[kinds[kind].first()];
                long pitch = 4L * sizes.max().get(kind);
                stream.uploadRows(
                        device, from, memory.asSlice(from), pitch, 4L * tableInts[kind], kinds[kind].groups());
            }
        }
        uploadAdjustments(stream);
    }

    /** Enqueues the upload of the draws alone, with their adjustments; after {@link #upload}. */
    void uploadDraws(Stream stream) {
        if (drawCount > 0) {
            stream.upload(device, 4L * drawsAt, memory.asSlice(4L * drawsAt), 4L * DRAW_INTS * drawCount);
        }
        uploadAdjustments(stream);
    }

    private void uploadAdjustments(Stream stream) {
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
    public long slots(int group) {
        return device.address() + 4L * (slotsAt + group * rows);
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
    public long resumed() {
        return device.address() + 4L * resumedAt;
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
    public long windowedTiles() {
        return device.address() + 4L * windowedTilesAt;
    }

    @Override
    public long sequences() {
        return device.address() + 4L * sequencesAt;
    }

    @Override
    public long windowedHeader() {
        return device.address() + 4L * WINDOWED_AT;
    }

    @Override
    public long windowedSequences() {
        return device.address() + 4L * windowed.sequencesAt;
    }

    @Override
    public long tables(int group) {
        return device.address() + 4L * tablesAt[group];
    }

    @Override
    public void close() {
        Resources.closeAll(device, pinned);
    }
}
