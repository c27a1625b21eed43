package dev.tandem.cpu;

import dev.tandem.cpu.simd.Lanes;
import dev.tandem.engine.step.AttentionSite;
import dev.tandem.engine.step.Chunk;
import dev.tandem.engine.step.SubBatch;
import dev.tandem.model.config.ModelConfig;
import dev.tandem.model.config.ModelSpec;
import java.util.ArrayList;
import java.util.List;

/**
 * A sub-batch's activations in fp32: one row per token, rows {@link Lanes#stride} apart. The buffers grow to the
 * largest batch so far and never shrink.
 *
 * <p>Owned by: engine thread; workers write disjoint rows or columns.
 */
final class Activations {
    final int hiddenWidth;
    final int qkvWidth;
    final int attendedWidth;
    final int gateUpWidth;
    final int half;
    /** Angles per row: {@link #half} for each of the model's rotations. */
    final int angles;

    /**
     * Which cost component a tile's attention counts towards; the tiles of each kind are computed and timed together.
     */
    enum AttentionKind {
        PREFILL,
        GPU,
        CPU;

        static AttentionKind of(Chunk chunk) {
            if (!chunk.decodes()) {
                return PREFILL;
            }
            return chunk.site() == AttentionSite.CPU_FROM_HOST ? CPU : GPU;
        }
    }

    /** Where the tiles of one {@link AttentionKind} are in {@link #tiles}; {@code end} is after the last. */
    static final class TileRange {
        int begin;
        int end;
    }

    /** The sub-batch's chunks, then one for each in-flight token that has rejoined the batch. */
    final List<Chunk> chunks = new ArrayList<>();

    int rows;
    /** Rows of the sub-batch itself; the rows after them are in-flight tokens. */
    int ownRows;
    /** [rows] indices into {@link #chunks}. */
    int[] chunkOfRow = new int[0];
    /** [rows] token positions. */
    int[] positions = new int[0];
    /** [rows, hidden]: the residual stream. */
    float[] residual = new float[0];
    /** [rows, hidden]: the normalised residual stream, the input of the next GEMM. */
    float[] normed = new float[0];
    /** [rows, q | k | v]. */
    float[] qkv = new float[0];
    /** [rows, heads * headDim]: the attention output. */
    float[] attended = new float[0];
    /** [rows, gate | up]; the activation overwrites gate with its result. */
    float[] gateUp = new float[0];
    /** [rows, rotations, headDim / 2]: cosines of the RoPE angles; {@link #sin} has the sines. */
    float[] cos = new float[0];

    float[] sin = new float[0];
    /** Attention tiles as triples (chunk, first row, tokens). Each tile is computed once per KV head. */
    int[] tiles = new int[0];

    private final TileRange prefillTiles = new TileRange();
    private final TileRange gpuTiles = new TileRange();
    private final TileRange cpuTiles = new TileRange();

    Activations(ModelSpec spec) {
        ModelConfig config = spec.config();
        this.hiddenWidth = Lanes.stride(config.hidden());
        this.qkvWidth = Lanes.stride((config.heads() + 2 * config.kvHeads()) * config.headDim());
        this.attendedWidth = Lanes.stride(config.heads() * config.headDim());
        this.gateUpWidth = Lanes.stride(2 * config.intermediate());
        this.half = config.headDim() / 2;
        this.angles = spec.rotations().size() * half;
    }

    /**
     * Lays out a sub-batch's rows and attention tiles.
     *
     * @param maxInFlight how many in-flight tokens may rejoin this batch at most
     */
    void load(SubBatch batch, int tileTokens, int maxInFlight) {
        chunks.clear();
        chunks.addAll(batch.chunks());
        rows = batch.rows();
        ownRows = rows;
        reserve(rows + maxInFlight);
        int row = 0;
        for (int c = 0; c < chunks.size(); c++) {
            Chunk chunk = chunks.get(c);
            for (int i = 0; i < chunk.rows(); i++) {
                chunkOfRow[row + i] = c;
                positions[row + i] = chunk.start() + i;
            }
            row += chunk.rows();
        }
        int count = 0;
        for (AttentionKind kind : AttentionKind.values()) {
            TileRange range = tiles(kind);
            range.begin = count;
            count = tiles(kind, count, tileTokens);
            range.end = count;
        }
    }

    /** The tiles of a kind. */
    TileRange tiles(AttentionKind kind) {
        return switch (kind) {
            case PREFILL -> prefillTiles;
            case GPU -> gpuTiles;
            case CPU -> cpuTiles;
        };
    }

    private int tiles(AttentionKind kind, int first, int tileTokens) {
        int count = first;
        int row = 0;
        for (int c = 0; c < chunks.size(); c++) {
            Chunk chunk = chunks.get(c);
            for (int i = 0; AttentionKind.of(chunk) == kind && i < chunk.rows(); i += tileTokens) {
                tiles[3 * count] = c;
                tiles[3 * count + 1] = row + i;
                tiles[3 * count + 2] = Math.min(tileTokens, chunk.rows() - i);
                count++;
            }
            row += chunk.rows();
        }
        return count;
    }

    /** Appends an in-flight token's state as a row; from here on the linear stages include it. */
    void rejoin(InFlightToken inFlight) {
        chunkOfRow[rows] = chunks.size();
        positions[rows] = inFlight.position();
        chunks.add(inFlight.chunk);
        System.arraycopy(inFlight.residual, 0, residual, rows * hiddenWidth, hiddenWidth);
        System.arraycopy(inFlight.attended, 0, attended, rows * attendedWidth, attendedWidth);
        System.arraycopy(inFlight.cos, 0, cos, rows * angles, angles);
        System.arraycopy(inFlight.sin, 0, sin, rows * angles, angles);
        rows++;
    }

    /** Copies an in-flight token's row back into its state. */
    void copyOut(int row, InFlightToken inFlight) {
        System.arraycopy(residual, row * hiddenWidth, inFlight.residual, 0, hiddenWidth);
        System.arraycopy(qkv, row * qkvWidth, inFlight.qkv, 0, qkvWidth);
        System.arraycopy(cos, row * angles, inFlight.cos, 0, angles);
        System.arraycopy(sin, row * angles, inFlight.sin, 0, angles);
    }

    /**
     * Keeps only the rows whose logits are wanted, moved together. Called after the last attention; all other rows have
     * stored their K and V and are done.
     */
    void keepWanted() {
        int row = 0;
        int kept = 0;
        for (int i = 0; i < chunks.size(); i++) {
            Chunk chunk = chunks.get(i);
            for (int of = 0; of < chunk.rows(); of++, row++) {
                if (chunk.wantsLogits(of)) {
                    System.arraycopy(residual, row * hiddenWidth, residual, kept * hiddenWidth, hiddenWidth);
                    System.arraycopy(attended, row * attendedWidth, attended, kept * attendedWidth, attendedWidth);
                    chunkOfRow[kept] = i;
                    positions[kept] = chunk.start() + of;
                    kept++;
                }
            }
        }
        rows = kept;
    }

    /** Removes the rows of in-flight tokens. */
    void removeInFlight() {
        while (rows > ownRows) {
            rows--;
            chunks.removeLast();
        }
    }

    private void reserve(int needed) {
        if (positions.length >= needed) {
            return;
        }
        int size = Math.max(needed, positions.length + positions.length / 2);
        chunkOfRow = new int[size];
        positions = new int[size];
        tiles = new int[3 * size];
        residual = new float[size * hiddenWidth];
        normed = new float[size * hiddenWidth];
        qkv = new float[size * qkvWidth];
        attended = new float[size * attendedWidth];
        gateUp = new float[size * gateUpWidth];
        cos = new float[size * angles];
        sin = new float[size * angles];
    }
}
