package dev.tandem.cpu;

import dev.tandem.cpu.simd.Lanes;
import dev.tandem.engine.batch.Chunk;
import dev.tandem.engine.batch.SubBatch;
import dev.tandem.model.config.ModelConfig;
import java.util.List;

/**
 * A sub-batch's rows on their way through the layers: fp32, one row after another, {@link Lanes#stride} apart.
 * Buffers grow to the largest batch seen and stay.
 *
 * <p>Owned by: engine thread; workers write disjoint rows or columns.
 */
final class Activations {
    final int hiddenWidth;
    final int qkvWidth;
    final int attendedWidth;
    final int gateUpWidth;
    final int half;

    List<Chunk> chunks = List.of();
    int rows;
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
    int tileCount;

    Activations(ModelConfig config) {
        this.hiddenWidth = Lanes.stride(config.hidden());
        this.qkvWidth = Lanes.stride((config.heads() + 2 * config.kvHeads()) * config.headDim());
        this.attendedWidth = Lanes.stride(config.heads() * config.headDim());
        this.gateUpWidth = Lanes.stride(2 * config.intermediate());
        this.half = config.headDim() / 2;
    }

    /** Lays out a sub-batch's rows. */
    void load(SubBatch batch, int tileTokens) {
        chunks = batch.chunks();
        rows = batch.rows();
        reserve(rows);
        int row = 0;
        tileCount = 0;
        for (int c = 0; c < chunks.size(); c++) {
            Chunk chunk = chunks.get(c);
            for (int i = 0; i < chunk.rows(); i++) {
                chunkOfRow[row + i] = c;
                positions[row + i] = chunk.start() + i;
            }
            for (int i = 0; i < chunk.rows(); i += tileTokens) {
                tiles[3 * tileCount] = c;
                tiles[3 * tileCount + 1] = row + i;
                tiles[3 * tileCount + 2] = Math.min(tileTokens, chunk.rows() - i);
                tileCount++;
            }
            row += chunk.rows();
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
