package dev.tandem.cpu;

import dev.tandem.cpu.attention.KvStore;
import dev.tandem.cpu.simd.MatrixPacker;
import dev.tandem.cpu.topology.WorkerPool;
import dev.tandem.engine.batch.Chunk;
import dev.tandem.engine.batch.StepPlan;
import dev.tandem.engine.batch.StepResult;
import dev.tandem.engine.batch.SubBatch;
import dev.tandem.engine.execute.Executor;
import dev.tandem.engine.execute.ExecutorException;
import dev.tandem.engine.execute.ExecutorLimits;
import dev.tandem.engine.kv.Place;
import dev.tandem.engine.kv.Swap;
import dev.tandem.engine.sample.Choice;
import dev.tandem.engine.sample.SamplingScratch;
import dev.tandem.engine.sample.TokenSampler;
import dev.tandem.model.Checkpoint;
import dev.tandem.model.config.DataType;
import dev.tandem.model.config.ModelConfig;
import java.lang.foreign.Arena;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.EnumMap;
import java.util.List;
import java.util.Queue;

/**
 * Runs step plans on the host's cores; two pools of host memory play the two places. A plan is computed when it is
 * submitted. Two sub-batches pass through each layer in turn; rows in flight are not run yet, and a plan that admits
 * some is refused.
 *
 * <p>Owned by: engine thread, which is also the workers' first.
 */
public final class CpuExecutor implements Executor {
    private final ExecutorLimits limits;
    private final Arena arena = Arena.ofShared();
    private final Checkpoint checkpoint;
    private final WorkerPool workers;
    private final LlamaForward forward;
    private final long weightBytes;
    private final EnumMap<Place, KvStore> stores = new EnumMap<>(Place.class);
    private final Activations[] activations = new Activations[2];
    private final SamplingScratch[] samplingScratch;
    private final Queue<StepResult> results = new ArrayDeque<>();
    private float[] logits = new float[0];
    private boolean callerPinned;

    /** Takes ownership of the checkpoint; when it fails, the checkpoint stays the caller's. */
    public CpuExecutor(Checkpoint checkpoint, CpuOptions options) {
        this.checkpoint = checkpoint;
        ModelConfig config = checkpoint.config();
        this.workers = new WorkerPool(options.threads(), options.pinThreads());
        try {
            this.limits = new ExecutorLimits(
                    config.vocabulary(),
                    config.usableContext(),
                    KvStore.BLOCK_TOKENS,
                    options.gpuBlocks(),
                    options.hostBlocks(),
                    options.maxBatchTokens());
            stores.put(Place.GPU, store(Place.GPU, options.gpuBlocks(), config, options.kvType()));
            stores.put(Place.HOST, store(Place.HOST, options.hostBlocks(), config, options.kvType()));
            LlamaWeights weights = loadWeights(config, options.weightType());
            this.weightBytes = weights.bytes();
            this.forward = new LlamaForward(config, weights, stores, workers, arena);
            this.samplingScratch = new SamplingScratch[workers.size()];
            Arrays.setAll(samplingScratch, i -> new SamplingScratch());
            Arrays.setAll(activations, i -> new Activations(config));
        } catch (RuntimeException | Error e) {
            workers.close();
            arena.close();
            throw e;
        }
    }

    private LlamaWeights loadWeights(ModelConfig config, DataType type) {
        workers.beginStep();
        try {
            MatrixPacker packer =
                    new MatrixPacker(arena, (count, body) -> workers.run(count, (index, worker) -> body.accept(index)));
            return LlamaWeights.load(config, checkpoint.weights(), type, packer);
        } finally {
            workers.endStep();
        }
    }

    private KvStore store(Place place, int blocks, ModelConfig config, DataType type) {
        return new KvStore(place, blocks, config.layers(), config.kvHeads(), config.headDim(), type, arena);
    }

    @Override
    public ExecutorLimits limits() {
        return limits;
    }

    /** Bytes of weights that a decoding step reads. */
    public long weightBytes() {
        return weightBytes;
    }

    @Override
    public void submit(StepPlan plan) {
        if (!plan.admissions().isEmpty() || plan.slotsPerLayer() > 0 || !plan.park().isEmpty()) {
            throw new ExecutorException("the CPU executor does not run rows in flight yet; the plan has "
                    + plan.admissions().size() + " admissions and " + plan.slotsPerLayer() + " slots a layer");
        }
        if (results.size() == MAX_OUTSTANDING) {
            throw new ExecutorException("more than " + MAX_OUTSTANDING + " plans are outstanding");
        }
        if (!callerPinned) {
            callerPinned = true;
            workers.pinCaller();
        }
        workers.beginStep();
        try {
            for (Swap swap : plan.swaps()) {
                stores.get(swap.from()).copyTo(stores.get(swap.to()), swap.fromBlocks(), swap.toBlocks());
            }
            List<StepResult.Sampled> sampled = new ArrayList<>();
            runLayers(plan.subBatches());
            for (int i = 0; i < plan.subBatches().size(); i++) {
                sample(activations[i], sampled);
            }
            results.add(new StepResult(plan.step(), sampled, List.of(), List.of()));
        } finally {
            workers.endStep();
        }
    }

    /** The sub-batches alternate: one is in its attention stage while the other is in its linear stage. */
    private void runLayers(List<SubBatch> batches) {
        for (int i = 0; i < batches.size(); i++) {
            activations[i].load(batches.get(i), forward.tileTokens());
            forward.embed(activations[i]);
        }
        for (int layer = 0; layer < checkpoint.config().layers(); layer++) {
            for (int i = 0; i < batches.size(); i++) {
                forward.preProjection(activations[i], layer);
                forward.attention(activations[i], layer);
                forward.postProjection(activations[i], layer);
            }
        }
    }

    private void sample(Activations a, List<StepResult.Sampled> sampled) {
        int[] rows = new int[a.chunks.size()];
        List<Chunk> ending = new ArrayList<>();
        int row = -1;
        for (Chunk chunk : a.chunks) {
            row += chunk.rows();
            if (chunk.sampler().isPresent()) {
                rows[ending.size()] = row;
                ending.add(chunk);
            }
        }
        if (ending.isEmpty()) {
            return;
        }
        int width = forward.logitsWidth();
        if (logits.length < ending.size() * width) {
            logits = new float[ending.size() * width];
        }
        forward.logits(a, rows, ending.size(), logits);
        Choice[] choices = new Choice[ending.size()];
        workers.run(ending.size(), (index, worker) -> {
            TokenSampler sampler = ending.get(index).sampler().orElseThrow();
            choices[index] = sampler.choose(logits, index * width, limits.vocabulary(), samplingScratch[worker]);
        });
        for (int i = 0; i < choices.length; i++) {
            sampled.add(new StepResult.Sampled(ending.get(i).sequence(), choices[i]));
        }
    }

    @Override
    public StepResult poll() {
        StepResult result = results.poll();
        if (result == null) {
            throw new ExecutorException("no plan is outstanding");
        }
        return result;
    }

    @Override
    public void close() {
        workers.close();
        arena.close();
        checkpoint.close();
    }
}
