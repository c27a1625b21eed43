package dev.tandem.cpu;

import dev.tandem.cpu.attention.KvStore;
import dev.tandem.cpu.attention.KvStores;
import dev.tandem.cpu.simd.ActivationPrecision;
import dev.tandem.cpu.simd.MatrixPacker;
import dev.tandem.cpu.topology.WorkerPool;
import dev.tandem.engine.kv.KvLayout;
import dev.tandem.engine.kv.KvTier;
import dev.tandem.engine.kv.KvWindow;
import dev.tandem.engine.step.SubBatch;
import dev.tandem.model.Checkpoint;
import dev.tandem.model.config.DataType;
import dev.tandem.model.config.ModelConfig;
import java.lang.foreign.Arena;
import java.util.stream.IntStream;

/**
 * The forward pass of a model without an executor, for tests that compare logits. It has weights and both KV pools of
 * one type. Closing it closes the checkpoint as well.
 *
 * <p>Owned by: the thread of the test.
 */
final class ForwardPass implements AutoCloseable {
    final ModelConfig config;
    private final Checkpoint checkpoint;
    private final WorkerPool workers;
    private final Arena arena = Arena.ofShared();
    private final DecoderForward forward;
    private final Activations activations;

    /** A pass with exact activations. */
    ForwardPass(Checkpoint checkpoint, DataType type, int blocks, int threads) {
        this(checkpoint, type, blocks, threads, ActivationPrecision.EXACT);
    }

    /** @param blocks per KV pool */
    ForwardPass(Checkpoint checkpoint, DataType type, int blocks, int threads, ActivationPrecision precision) {
        this.checkpoint = checkpoint;
        this.config = checkpoint.config();
        this.workers = new WorkerPool(threads, false);
        KvStores stores = new KvStores(store(KvTier.GPU, blocks, type), store(KvTier.HOST, blocks, type));
        MatrixPacker packer = new MatrixPacker(
                arena, (count, body) -> IntStream.range(0, count).forEach(body));
        DecoderWeights weights = DecoderWeights.load(checkpoint.spec(), checkpoint.weights(), type, packer);
        // blocks have the KV of all layers
        KvLayout layout = KvLayout.of(KvWindow.NONE);
        this.forward =
                new DecoderForward(checkpoint.spec(), weights, stores, layout, workers, threads, precision, arena);
        this.activations = new Activations(checkpoint.spec());
    }

    private KvStore store(KvTier tier, int blocks, DataType type) {
        return new KvStore(tier, blocks, config.layers(), config.kvHeads(), config.headDim(), type, arena);
    }

    /** Computes the logits of all rows of a sub-batch: [rows, vocabulary]. */
    float[] logits(SubBatch batch) {
        activations.load(batch, forward.tileTokens(), 0);
        forward.embed(activations);
        for (int layer = 0; layer < config.layers(); layer++) {
            forward.preProjection(activations, layer);
            for (Activations.AttentionKind kind : Activations.AttentionKind.values()) {
                forward.attention(activations, layer, kind);
            }
            forward.postProjection(activations, layer);
        }
        int rows = batch.rows();
        int width = forward.logitsWidth();
        float[] padded = new float[rows * width];
        forward.logits(activations, 0, activations.rows, padded);
        float[] logits = new float[rows * config.vocabulary()];
        for (int row = 0; row < rows; row++) {
            System.arraycopy(padded, row * width, logits, row * config.vocabulary(), config.vocabulary());
        }
        return logits;
    }

    @Override
    public void close() {
        workers.close();
        arena.close();
        checkpoint.close();
    }
}
