package dev.tandem.cpu;

import dev.tandem.cpu.attention.KvStore;
import dev.tandem.cpu.attention.KvStores;
import dev.tandem.cpu.attention.PagedAttention;
import dev.tandem.cpu.simd.ActivationPrecision;
import dev.tandem.cpu.simd.Lanes;
import dev.tandem.cpu.simd.PackedMatrix;
import dev.tandem.cpu.simd.RowOps;
import dev.tandem.cpu.topology.WorkerPool;
import dev.tandem.engine.kv.KvLayout;
import dev.tandem.engine.step.Chunk;
import dev.tandem.model.config.LayerSpec;
import dev.tandem.model.config.ModelConfig;
import dev.tandem.model.config.ModelSpec;
import dev.tandem.model.config.QkNorm;
import dev.tandem.model.config.Rope;
import dev.tandem.model.config.RopeFrequencies;
import java.lang.foreign.Arena;
import java.util.Arrays;
import java.util.List;

/**
 * The forward pass of the decoder that a {@link ModelSpec} describes, one method per stage: {@link #embed}, then for
 * each layer {@link #preProjection} (norm, QKV, RoPE, append to KV), attention and {@link #postProjection} (output,
 * norm, MLP), then {@link #logits}.
 *
 * <p>Each value depends on its own row alone and is summed in a fixed order. Batching and chunking therefore never
 * change a bit of the result.
 *
 * <p>Owned by: engine thread.
 */
final class DecoderForward {
    /** Up to this many rows, computing a row-wise operation here costs less than handing it to the workers. */
    private static final int MAX_SERIAL_ROWS = 4;

    private final ModelSpec spec;
    private final ModelConfig config;
    private final DecoderWeights weights;
    private final KvStores stores;
    private final KvLayout layout;
    private final WorkerPool workers;
    private final int attentionThreads;
    private final List<Rope.Rotary> rotations;
    /** Of each rotation: [headDim / 2] radians per position. */
    private final float[][] frequencies;
    /** Of each layer: the index of its rotation; -1 if it does not rotate. */
    private final int[] rotationOfLayer;

    private final PagedAttention.Rule[] rules;
    private final float epsilon;
    private final ParallelAttention attention;
    private final ParallelGemm gemm;

    /**
     * @param layout which of the layers' pages the stores have
     * @param attentionThreads how many workers compute the attention that a plan gives to the CPU
     * @param precision of activations in GEMMs with quantised matrices
     * @param arena owns the scratch memory
     */
    DecoderForward(
            ModelSpec spec,
            DecoderWeights weights,
            KvStores stores,
            KvLayout layout,
            WorkerPool workers,
            int attentionThreads,
            ActivationPrecision precision,
            Arena arena) {
        this.attentionThreads = attentionThreads;
        this.spec = spec;
        this.config = spec.config();
        this.weights = weights;
        this.stores = stores;
        this.layout = layout;
        this.workers = workers;
        this.rotations = spec.rotations();
        this.frequencies = rotations.stream()
                .map(rotary -> RopeFrequencies.of(rotary, config.headDim()))
                .toArray(float[][]::new);
        List<LayerSpec.Attention> attention =
                spec.layers().stream().map(LayerSpec::attention).toList();
        this.rotationOfLayer =
                attention.stream().mapToInt(a -> rotations.indexOf(a.rope())).toArray();
        this.rules = attention.stream().map(PagedAttention.Rule::of).toArray(PagedAttention.Rule[]::new);
        this.epsilon = (float) config.normEpsilon();
        this.attention = new ParallelAttention(workers, config.group(), config.headDim(), arena);
        this.gemm = new ParallelGemm(workers, precision, arena);
    }

    /** Query tokens per attention tile. */
    int tileTokens() {
        return PagedAttention.tileTokens(config.group());
    }

    /** Looks up the embedding and the RoPE angles of every token of the batch. */
    void embed(Activations a) {
        float scale = (float) spec.embeddingScale();
        int row = 0;
        for (Chunk chunk : a.chunks) {
            for (int token : chunk.tokens()) {
                int at = row * a.hiddenWidth;
                weights.embeddings().row(token, a.residual, at);
                for (int i = 0; scale != 1 && i < config.hidden(); i++) {
                    a.residual[at + i] *= scale;
                }
                angles(a, row);
                row++;
            }
        }
    }

    /** Computes the angles of a token's position, for each rotation. */
    private void angles(Activations a, int row) {
        for (int rotation = 0; rotation < rotations.size(); rotation++) {
            int rotating = rotations.get(rotation).dims() / 2;
            float magnitude = (float) rotations.get(rotation).magnitude();
            int at = row * a.angles + rotation * a.half;
            for (int i = 0; i < a.half; i++) {
                float angle = a.positions[row] * frequencies[rotation][i];
                float scale = i < rotating ? magnitude : 1;
                a.cos[at + i] = scale * (float) Math.cos(angle);
                a.sin[at + i] = scale * (float) Math.sin(angle);
            }
        }
    }

    /** Computes norm, q, k, v and RoPE, and appends the new tokens' K and V to their KV blocks. */
    void preProjection(Activations a, int layer) {
        DecoderWeights.Layer w = weights.layers().get(layer);
        boolean normed = spec.norms().onInputs();
        forEachRow(a.rows, row -> {
            if (normed) {
                RowOps.rmsNorm(
                        a.residual,
                        row * a.hiddenWidth,
                        w.inputNorm(),
                        epsilon,
                        config.hidden(),
                        a.normed,
                        row * a.hiddenWidth);
            }
            if (w.qkvBias().length > 0) {
                System.arraycopy(w.qkvBias(), 0, a.qkv, row * a.qkvWidth, w.qkvBias().length);
                Arrays.fill(a.qkv, row * a.qkvWidth + w.qkvBias().length, (row + 1) * a.qkvWidth, 0);
            } else {
                Arrays.fill(a.qkv, row * a.qkvWidth, (row + 1) * a.qkvWidth, 0);
            }
        });
        gemm.add(w.qkv(), a.rows, normed ? a.normed : a.residual, a.hiddenWidth, a.qkv, a.qkvWidth);
        forEachRow(a.rows, row -> rotateAndAppend(a, layer, w, row));
    }

    private void rotateAndAppend(Activations a, int layer, DecoderWeights.Layer w, int row) {
        int headDim = config.headDim();
        int keys = row * a.qkvWidth + config.heads() * headDim;
        int values = keys + config.kvHeads() * headDim;
        LayerSpec.Attention attention = spec.layers().get(layer).attention();
        if (attention.qkNorm() == QkNorm.WHOLE_ROW) {
            int queries = row * a.qkvWidth;
            RowOps.rmsNorm(a.qkv, queries, w.queryNorm(), epsilon, attention.queries(), a.qkv, queries);
            RowOps.rmsNorm(a.qkv, keys, w.keyNorm(), epsilon, attention.keys(), a.qkv, keys);
        }
        int rotation = rotationOfLayer[layer];
        for (int head = 0; head < config.heads() + config.kvHeads(); head++) {
            int at = row * a.qkvWidth + head * headDim;
            if (attention.qkNorm() == QkNorm.PER_HEAD) {
                float[] norm = head < config.heads() ? w.queryNorm() : w.keyNorm();
                RowOps.rmsNorm(a.qkv, at, norm, epsilon, headDim, a.qkv, at);
            }
            if (rotation >= 0) {
                RowOps.rotate(a.qkv, at, a.cos, a.sin, row * a.angles + rotation * a.half, a.half);
            }
        }
        Chunk chunk = a.chunks.get(a.chunkOfRow[row]);
        KvStore store = stores.of(chunk.site().tier());
        int block = chunk.kv(layout.groupOf(layer)).block(a.positions[row] / KvStore.BLOCK_TOKENS);
        int index = layout.indexOf(layer);
        int slot = a.positions[row] % KvStore.BLOCK_TOKENS;
        for (int head = 0; head < config.kvHeads(); head++) {
            store.append(index, block, slot, head, a.qkv, keys + head * headDim, a.qkv, values + head * headDim);
        }
    }

    /** Computes the attention of the batch's tiles of one kind, each over its own sequence's KV in either tier. */
    void attention(Activations a, int layer, Activations.AttentionKind kind) {
        int kvHeads = config.kvHeads();
        int groupWidth = config.group() * config.headDim();
        int begin = a.tiles(kind).begin;
        int end = a.tiles(kind).end;
        int threads = kind == Activations.AttentionKind.CPU ? attentionThreads : workers.size();
        // start with the last tiles of a prompt: they have the longest context
        attention.compute((end - begin) * kvHeads, threads, index -> {
            int tile = 3 * (end - 1 - index / kvHeads);
            int kvHead = index % kvHeads;
            int row = a.tiles[tile + 1];
            Chunk chunk = a.chunks.get(a.tiles[tile]);
            return new PagedAttention.Tile(
                    stores.of(chunk.site().tier()),
                    layout.indexOf(layer),
                    kvHead,
                    chunk.kv(layout.groupOf(layer)),
                    a.positions[row],
                    a.tiles[tile + 2],
                    rules[layer],
                    a.qkv,
                    row * a.qkvWidth + kvHead * groupWidth,
                    a.qkvWidth,
                    a.attended,
                    row * a.attendedWidth + kvHead * groupWidth,
                    a.attendedWidth);
        });
    }

    /** Computes the attention of in-flight tokens, each at the layer where it waits. */
    void attention(List<InFlightToken> inFlight) {
        int kvHeads = config.kvHeads();
        int groupWidth = config.group() * config.headDim();
        attention.compute(inFlight.size() * kvHeads, attentionThreads, index -> {
            InFlightToken token = inFlight.get(index / kvHeads);
            int kvHead = index % kvHeads;
            return new PagedAttention.Tile(
                    stores.of(token.chunk.site().tier()),
                    layout.indexOf(token.layer),
                    kvHead,
                    token.chunk.kv(layout.groupOf(token.layer)),
                    token.position(),
                    1,
                    rules[token.layer],
                    token.qkv,
                    kvHead * groupWidth,
                    token.qkv.length,
                    token.attended,
                    kvHead * groupWidth,
                    token.attended.length);
        });
    }

    /** Computes the output projection and the MLP, and adds each to the residual stream. */
    void postProjection(Activations a, int layer) {
        DecoderWeights.Layer w = weights.layers().get(layer);
        boolean normed = spec.norms().onInputs();
        project(w.output(), a, a.attended, a.attendedWidth, w.attentionNorm());
        forEachRow(a.rows, row -> {
            if (normed) {
                RowOps.rmsNorm(
                        a.residual,
                        row * a.hiddenWidth,
                        w.mlpInputNorm(),
                        epsilon,
                        config.hidden(),
                        a.normed,
                        row * a.hiddenWidth);
            }
            Arrays.fill(a.gateUp, row * a.gateUpWidth, (row + 1) * a.gateUpWidth, 0);
        });
        gemm.add(w.gateUp(), a.rows, normed ? a.normed : a.residual, a.hiddenWidth, a.gateUp, a.gateUpWidth);
        int intermediate = config.intermediate();
        forEachRow(a.rows, row -> {
            int gate = row * a.gateUpWidth;
            int up = gate + intermediate;
            switch (spec.activation()) {
                case SILU -> RowOps.swiGlu(a.gateUp, gate, a.gateUp, up, intermediate, a.gateUp, gate);
                case GELU_TANH -> RowOps.geGlu(a.gateUp, gate, a.gateUp, up, intermediate, a.gateUp, gate);
            }
        });
        project(w.down(), a, a.gateUp, a.gateUpWidth, w.mlpNorm());
    }

    /** Adds a projection to the residual stream: as it is, or normalised where norms are on outputs. */
    private void project(List<PackedMatrix> matrix, Activations a, float[] x, int xs, float[] norm) {
        if (!spec.norms().onOutputs()) {
            gemm.add(matrix, a.rows, x, xs, a.residual, a.hiddenWidth);
            return;
        }
        Arrays.fill(a.normed, 0, a.rows * a.hiddenWidth, 0);
        gemm.add(matrix, a.rows, x, xs, a.normed, a.hiddenWidth);
        forEachRow(a.rows, row -> {
            int at = row * a.hiddenWidth;
            RowOps.rmsNorm(a.normed, at, norm, epsilon, config.hidden(), a.normed, at);
            for (int i = 0; i < config.hidden(); i++) {
                a.residual[at + i] += a.normed[at + i];
            }
        });
    }

    /** Floats per row of logits: the vocabulary, padded to whole panels. */
    int logitsWidth() {
        return Lanes.padded(config.vocabulary());
    }

    /**
     * Computes the logits of some rows.
     *
     * @param from the first of them
     * @param count of them
     * @param out [count, {@link #logitsWidth()}]
     */
    void logits(Activations a, int from, int count, float[] out) {
        forEachRow(
                count,
                row -> RowOps.rmsNorm(
                        a.residual,
                        (from + row) * a.hiddenWidth,
                        weights.norm(),
                        epsilon,
                        config.hidden(),
                        a.normed,
                        row * a.hiddenWidth));
        Arrays.fill(out, 0, count * logitsWidth(), 0);
        gemm.add(weights.head(), count, a.normed, a.hiddenWidth, out, logitsWidth());
    }

    private interface RowBody {
        void run(int row);
    }

    private void forEachRow(int rows, RowBody body) {
        if (rows <= MAX_SERIAL_ROWS) {
            for (int row = 0; row < rows; row++) {
                body.run(row);
            }
        } else {
            workers.run(rows, (row, worker) -> body.run(row));
        }
    }
}
