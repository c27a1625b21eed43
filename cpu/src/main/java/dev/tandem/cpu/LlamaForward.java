package dev.tandem.cpu;

import dev.tandem.cpu.attention.AttentionScratch;
import dev.tandem.cpu.attention.KvStore;
import dev.tandem.cpu.attention.PagedAttention;
import dev.tandem.cpu.simd.GroupKernel;
import dev.tandem.cpu.simd.Lanes;
import dev.tandem.cpu.simd.PackedMatrix;
import dev.tandem.cpu.simd.PanelGemm;
import dev.tandem.cpu.simd.RowOps;
import dev.tandem.cpu.topology.WorkerPool;
import dev.tandem.engine.kv.KvTier;
import dev.tandem.engine.step.Chunk;
import dev.tandem.model.config.ModelConfig;
import dev.tandem.model.config.RopeFrequencies;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Arrays;
import java.util.EnumMap;
import java.util.List;

/**
 * A decoder of the Llama family, one stage after another: embed, then for each layer pre-projection (norm, qkv,
 * rotation, append to KV), attention, post-projection (output, norm, feed-forward), then logits.
 *
 * <p>Every value depends on its own row alone and is summed in one order, so batch and chunking change no bits.
 *
 * <p>Owned by: engine thread.
 */
final class LlamaForward {
    /** Rows of a product handled together: inputs of 128 x 1536 x 4 = 768 KiB stay in the second-level cache. */
    private static final int ROW_BLOCK = 128;
    /**
     * Tasks of a product a worker. Panels side by side share cache lines of the output: handed out one by one, two
     * workers wrote the same lines in turn and were no faster than one.
     */
    private static final int RUNS_PER_WORKER = 4;
    /** Below this many rows a row-wise operation costs less than handing it to the workers. */
    private static final int FEW_ROWS = 4;

    private final ModelConfig config;
    private final LlamaWeights weights;
    private final EnumMap<KvTier, KvStore> stores;
    private final WorkerPool workers;
    private final int attentionThreads;
    private final float[] frequencies;
    private final float epsilon;
    private final AttentionScratch[] attentionScratch;
    private final MemorySegment[] gemmScratch;
    /** Inputs of a product in groups of eight rows. */
    private float[] groups = new float[0];

    /**
     * @param attentionThreads workers that compute the CPU's attention
     * @param arena owns scratch memory
     */
    LlamaForward(
            ModelConfig config,
            LlamaWeights weights,
            EnumMap<KvTier, KvStore> stores,
            WorkerPool workers,
            int attentionThreads,
            Arena arena) {
        this.attentionThreads = attentionThreads;
        this.config = config;
        this.weights = weights;
        this.stores = stores;
        this.workers = workers;
        this.frequencies = RopeFrequencies.of(config);
        this.epsilon = (float) config.normEpsilon();
        this.attentionScratch = new AttentionScratch[workers.size()];
        this.gemmScratch = new MemorySegment[workers.size()];
        for (int i = 0; i < workers.size(); i++) {
            attentionScratch[i] = new AttentionScratch(PagedAttention.maxRows(config.group()), config.headDim(), arena);
            gemmScratch[i] = arena.allocate(PanelGemm.SCRATCH_BYTES, 64);
        }
    }

    int tileTokens() {
        return PagedAttention.tileTokens(config.group());
    }

    /** Looks up the tokens of the sub-batch and of riding rows, and their rotation angles. */
    void embed(Activations a) {
        int row = 0;
        for (Chunk chunk : a.chunks) {
            for (int token : chunk.tokens()) {
                weights.embeddings().row(token, a.residual, row * a.hiddenWidth);
                for (int i = 0; i < a.half; i++) {
                    float angle = a.positions[row] * frequencies[i];
                    a.cos[row * a.half + i] = (float) Math.cos(angle);
                    a.sin[row * a.half + i] = (float) Math.sin(angle);
                }
                row++;
            }
        }
    }

    /** Norm, q, k and v, rotation, and the new tokens' K and V into their blocks. */
    void preProjection(Activations a, int layer) {
        LlamaWeights.Layer w = weights.layers().get(layer);
        forEachRow(a.rows, row -> {
            RowOps.rmsNorm(
                    a.residual,
                    row * a.hiddenWidth,
                    w.inputNorm(),
                    epsilon,
                    config.hidden(),
                    a.normed,
                    row * a.hiddenWidth);
            if (w.qkvBias().length > 0) {
                System.arraycopy(w.qkvBias(), 0, a.qkv, row * a.qkvWidth, w.qkvBias().length);
                Arrays.fill(a.qkv, row * a.qkvWidth + w.qkvBias().length, (row + 1) * a.qkvWidth, 0);
            } else {
                Arrays.fill(a.qkv, row * a.qkvWidth, (row + 1) * a.qkvWidth, 0);
            }
        });
        product(w.qkv(), a.rows, a.normed, a.hiddenWidth, a.qkv, a.qkvWidth);
        forEachRow(a.rows, row -> rotateAndAppend(a, layer, w, row));
    }

    private void rotateAndAppend(Activations a, int layer, LlamaWeights.Layer w, int row) {
        int headDim = config.headDim();
        int keys = row * a.qkvWidth + config.heads() * headDim;
        int values = keys + config.kvHeads() * headDim;
        for (int head = 0; head < config.heads() + config.kvHeads(); head++) {
            int at = row * a.qkvWidth + head * headDim;
            if (config.qkNorm()) {
                float[] norm = head < config.heads() ? w.queryNorm() : w.keyNorm();
                RowOps.rmsNorm(a.qkv, at, norm, epsilon, headDim, a.qkv, at);
            }
            RowOps.rotate(a.qkv, at, a.cos, a.sin, row * a.half, a.half);
        }
        Chunk chunk = a.chunks.get(a.chunkOfRow[row]);
        KvStore store = stores.get(chunk.site().tier());
        int block = chunk.blocks()[a.positions[row] / KvStore.BLOCK_TOKENS];
        int slot = a.positions[row] % KvStore.BLOCK_TOKENS;
        for (int head = 0; head < config.kvHeads(); head++) {
            store.append(layer, block, slot, head, a.qkv, keys + head * headDim, a.qkv, values + head * headDim);
        }
    }

    /** Rows of one kind, each over its own sequence's KV, wherever that is. */
    void attention(Activations a, int layer, Activations.Reading reading) {
        int kvHeads = config.kvHeads();
        int groupWidth = config.group() * config.headDim();
        int end = a.tilesEnd[reading.ordinal()];
        int begin = reading.ordinal() == 0 ? 0 : a.tilesEnd[reading.ordinal() - 1];
        int threads = reading == Activations.Reading.CPU ? attentionThreads : workers.size();
        // the last tiles of a prompt see the longest context: begin with them
        workers.run((end - begin) * kvHeads, threads, (index, worker) -> {
            int tile = 3 * (end - 1 - index / kvHeads);
            int kvHead = index % kvHeads;
            int row = a.tiles[tile + 1];
            Chunk chunk = a.chunks.get(a.tiles[tile]);
            PagedAttention.tile(
                    stores.get(chunk.site().tier()),
                    layer,
                    kvHead,
                    chunk.blocks(),
                    a.positions[row],
                    a.tiles[tile + 2],
                    config.group(),
                    a.qkv,
                    row * a.qkvWidth + kvHead * groupWidth,
                    a.qkvWidth,
                    a.attended,
                    row * a.attendedWidth + kvHead * groupWidth,
                    a.attendedWidth,
                    attentionScratch[worker]);
        });
    }

    /** In-flight tokens, each at the layer where it stands. */
    void attention(List<InFlightToken> inFlight) {
        int kvHeads = config.kvHeads();
        int groupWidth = config.group() * config.headDim();
        workers.run(inFlight.size() * kvHeads, attentionThreads, (index, worker) -> {
            InFlightToken row = inFlight.get(index / kvHeads);
            int kvHead = index % kvHeads;
            PagedAttention.tile(
                    stores.get(row.chunk.site().tier()),
                    row.layer,
                    kvHead,
                    row.chunk.blocks(),
                    row.position(),
                    1,
                    config.group(),
                    row.qkv,
                    kvHead * groupWidth,
                    row.qkv.length,
                    row.attended,
                    kvHead * groupWidth,
                    row.attended.length,
                    attentionScratch[worker]);
        });
    }

    /** Output projection and feed-forward, each added to the residual stream. */
    void postProjection(Activations a, int layer) {
        LlamaWeights.Layer w = weights.layers().get(layer);
        product(w.output(), a.rows, a.attended, a.attendedWidth, a.residual, a.hiddenWidth);
        forEachRow(a.rows, row -> {
            RowOps.rmsNorm(
                    a.residual,
                    row * a.hiddenWidth,
                    w.attentionNorm(),
                    epsilon,
                    config.hidden(),
                    a.normed,
                    row * a.hiddenWidth);
            Arrays.fill(a.gateUp, row * a.gateUpWidth, (row + 1) * a.gateUpWidth, 0);
        });
        product(w.gateUp(), a.rows, a.normed, a.hiddenWidth, a.gateUp, a.gateUpWidth);
        int intermediate = config.intermediate();
        forEachRow(a.rows, row -> {
            int gate = row * a.gateUpWidth;
            RowOps.swiGlu(a.gateUp, gate, a.gateUp, gate + intermediate, intermediate, a.gateUp, gate);
        });
        product(w.down(), a.rows, a.gateUp, a.gateUpWidth, a.residual, a.hiddenWidth);
    }

    int logitsWidth() {
        return Lanes.padded(config.vocabulary());
    }

    /**
     * Logits of all rows.
     *
     * @param out [rows, {@link #logitsWidth()}]
     */
    void logits(Activations a, float[] out) {
        forEachRow(
                a.rows,
                row -> RowOps.rmsNorm(
                        a.residual,
                        row * a.hiddenWidth,
                        weights.norm(),
                        epsilon,
                        config.hidden(),
                        a.normed,
                        row * a.hiddenWidth));
        Arrays.fill(out, 0, a.rows * logitsWidth(), 0);
        product(weights.head(), a.rows, a.normed, a.hiddenWidth, out, logitsWidth());
    }

    /** {@code out += x · matrix}: one task a run of panels and block of rows. */
    private void product(PackedMatrix matrix, int rows, float[] x, int xs, float[] out, int os) {
        int depth = matrix.depth();
        int groupCount = GroupKernel.grouped(rows) / GroupKernel.ROWS;
        if (groups.length < groupCount * GroupKernel.ROWS * depth) {
            groups = new float[groupCount * GroupKernel.ROWS * depth];
        }
        float[] gathered = groups;
        workers.run(
                groupCount,
                (group, worker) -> GroupKernel.gather(
                        x, group * GroupKernel.ROWS * xs, xs, depth, gathered, group * GroupKernel.ROWS * depth));
        int panels = matrix.panels();
        int run = Math.max(1, panels / (workers.size() * RUNS_PER_WORKER));
        int runs = (panels + run - 1) / run;
        int rowBlocks = (rows + ROW_BLOCK - 1) / ROW_BLOCK;
        workers.run(runs * rowBlocks, (index, worker) -> {
            int from = index / runs * ROW_BLOCK;
            int first = index % runs * run;
            for (int panel = first; panel < Math.min(first + run, panels); panel++) {
                PanelGemm.multiply(
                        matrix,
                        panel,
                        Math.min(ROW_BLOCK, rows - from),
                        x,
                        from * xs,
                        xs,
                        gathered,
                        from * depth,
                        out,
                        from * os + panel * Lanes.PANEL,
                        os,
                        gemmScratch[worker].address());
            }
        });
    }

    private interface RowBody {
        void run(int row);
    }

    private void forEachRow(int rows, RowBody body) {
        if (rows <= FEW_ROWS) {
            for (int row = 0; row < rows; row++) {
                body.run(row);
            }
        } else {
            workers.run(rows, (row, worker) -> body.run(row));
        }
    }
}
