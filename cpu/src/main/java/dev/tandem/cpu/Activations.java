package dev.tandem.cpu;

import dev.tandem.cpu.simd.Lanes;
import dev.tandem.engine.step.AttentionSite;
import dev.tandem.engine.step.Chunk;
import dev.tandem.engine.step.SubBatch;
import dev.tandem.model.config.ModelConfig;
import java.util.ArrayList;
import java.util.List;

/**
 * A sub-batch's rows on their way through the layers: fp32, one row after another, {@link Lanes#stride} apart. Buffers
 * grow to the largest batch seen and stay.
 *
 * <p>Owned by: engine thread; workers write disjoint rows or columns.
 */
final class Activations {
    final int hiddenWidth;
    final int qkvWidth;
    final int attendedWidth;
    final int gateUpWidth;
    final int half;

    /** Who reads the KV of a run of tiles; runs are timed apart. */
    enum Reading {
        PREFILL,
        GPU,
        CPU;

        static Reading of(Chunk chunk) {
            if (!chunk.decodes()) {
                return PREFILL;
            }
            return chunk.site() == AttentionSite.CPU_FROM_HOST ? CPU : GPU;
        }
    }

    /** Of the sub-batch, then those of in-flight tokens that ride along. */
    final List<Chunk> chunks = new ArrayList<>();

    int rows;
    /** Rows of the sub-batch itself; the others are in flight. */
    int ownRows;
    /** [rows] index into {@link #chunks}. */
    int[] chunkOfRow = new int[0];
    /** [rows] token positions. */
    int[] positions = new int[0];
    /** [rows, hidden]: the residual stream. */
    float[] residual = new float[0];
    /** [rows, hidden]: its norm, the input of the next product. */
    float[] normed = new float[0];
    /** [rows, q | k | v]. */
    float[] qkv = new float[0];
    /** [rows, heads * headDim]. */
    float[] attended = new float[0];
    /** [rows, gate | up]; the activation overwrites gate. */
    float[] gateUp = new float[0];
    /** [rows, headDim / 2] rotation angles' cosines and sines. */
    float[] cos = new float[0];

    float[] sin = new float[0];
    /** Attention tiles: (chunk, first row, tokens) triples, for each of the KV heads. */
    int[] tiles = new int[0];
    /** Tiles of each {@link Reading} end here; they begin where the one before ends. */
    final int[] tilesEnd = new int[Reading.values().length];

    Activations(ModelConfig config) {
        this.hiddenWidth = Lanes.stride(config.hidden());
        this.qkvWidth = Lanes.stride((config.heads() + 2 * config.kvHeads()) * config.headDim());
        this.attendedWidth = Lanes.stride(config.heads() * config.headDim());
        this.gateUpWidth = Lanes.stride(2 * config.intermediate());
        this.half = config.headDim() / 2;
    }

    /**
     * Lays out a sub-batch's rows.
     *
     * @param piggybacked the most in-flight tokens that may ride along
     */
    void load(SubBatch batch, int tileTokens, int piggybacked) {
        chunks.clear();
        chunks.addAll(batch.chunks());
        rows = batch.rows();
        ownRows = rows;
        reserve(rows + piggybacked);
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
        for (Reading reading : Reading.values()) {
            count = tiles(reading, count, tileTokens);
            tilesEnd[reading.ordinal()] = count;
        }
    }

    private int tiles(Reading reading, int first, int tileTokens) {
        int count = first;
        int row = 0;
        for (int c = 0; c < chunks.size(); c++) {
            Chunk chunk = chunks.get(c);
            for (int i = 0; Reading.of(chunk) == reading && i < chunk.rows(); i += tileTokens) {
                tiles[3 * count] = c;
                tiles[3 * count + 1] = row + i;
                tiles[3 * count + 2] = Math.min(tileTokens, chunk.rows() - i);
                count++;
            }
            row += chunk.rows();
        }
        return count;
    }

    /** A in-flight token takes part in the linear stages from here; what it carries is copied in. */
    void rejoin(InFlightToken inFlight) {
        chunkOfRow[rows] = chunks.size();
        positions[rows] = inFlight.position();
        chunks.add(inFlight.chunk);
        System.arraycopy(inFlight.residual, 0, residual, rows * hiddenWidth, hiddenWidth);
        System.arraycopy(inFlight.attended, 0, attended, rows * attendedWidth, attendedWidth);
        System.arraycopy(inFlight.cos, 0, cos, rows * half, half);
        System.arraycopy(inFlight.sin, 0, sin, rows * half, half);
        rows++;
    }

    /** What a riding row has become. */
    void copyOut(int row, InFlightToken inFlight) {
        System.arraycopy(residual, row * hiddenWidth, inFlight.residual, 0, hiddenWidth);
        System.arraycopy(qkv, row * qkvWidth, inFlight.qkv, 0, qkvWidth);
        System.arraycopy(cos, row * half, inFlight.cos, 0, half);
        System.arraycopy(sin, row * half, inFlight.sin, 0, half);
    }

    /**
     * After the last attention only sampled rows go on, the last of their chunks: they close up. The others have stored
     * their K and V.
     */
    void keepSampled() {
        int row = -1;
        int kept = 0;
        for (Chunk chunk : chunks) {
            row += chunk.rows();
            if (chunk.sampler().isPresent()) {
                System.arraycopy(residual, row * hiddenWidth, residual, kept * hiddenWidth, hiddenWidth);
                System.arraycopy(attended, row * attendedWidth, attended, kept * attendedWidth, attendedWidth);
                kept++;
            }
        }
        rows = kept;
    }

    /** Only the sub-batch's own rows remain. */
    void unload() {
        while (rows > ownRows) {
            rows--;
            chunks.removeLast();
        }
    }

    private void reserve(int wanted) {
        if (positions.length >= wanted) {
            return;
        }
        int size = Math.max(wanted, positions.length + positions.length / 2);
        chunkOfRow = new int[size];
        positions = new int[size];
        tiles = new int[3 * size];
        residual = new float[size * hiddenWidth];
        normed = new float[size * hiddenWidth];
        qkv = new float[size * qkvWidth];
        attended = new float[size * attendedWidth];
        gateUp = new float[size * gateUpWidth];
        cos = new float[size * half];
        sin = new float[size * half];
    }
}
