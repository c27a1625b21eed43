package dev.tandem.cpu;

import dev.tandem.cpu.attention.KvStore;
import dev.tandem.cpu.attention.KvStores;
import dev.tandem.cpu.simd.MatrixPacker;
import dev.tandem.cpu.topology.WorkerPool;
import dev.tandem.engine.clock.Clock;
import dev.tandem.engine.cost.Component;
import dev.tandem.engine.executor.Executor;
import dev.tandem.engine.executor.ExecutorException;
import dev.tandem.engine.executor.ExecutorLimits;
import dev.tandem.engine.executor.Readiness;
import dev.tandem.engine.kv.KvTier;
import dev.tandem.engine.kv.Swap;
import dev.tandem.engine.sampling.Choice;
import dev.tandem.engine.sampling.PromptScorer;
import dev.tandem.engine.sampling.SamplingException;
import dev.tandem.engine.sampling.SamplingScratch;
import dev.tandem.engine.sampling.TokenSampler;
import dev.tandem.engine.step.Chunk;
import dev.tandem.engine.step.StepPlan;
import dev.tandem.engine.step.StepResult;
import dev.tandem.engine.step.SubBatch;
import dev.tandem.model.Checkpoint;
import dev.tandem.model.config.DataType;
import dev.tandem.model.config.ModelConfig;
import dev.tandem.model.config.ModelSpec;
import java.lang.foreign.Arena;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.Queue;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * Runs step plans on the host's cores. Two KV pools in host memory stand for the GPU tier and the host tier.
 *
 * <p>{@link #submitLayers} computes a plan's layers, one stage after another, and {@link #sample} its tokens;
 * {@link #submit} does both. Two sub-batches alternate layer by layer. In-flight tokens join the last sub-batch at the
 * layers where {@link Readiness} says that their attention is back.
 *
 * <p>Owned by: engine thread, which is also worker 0 of the pool.
 */
public final class CpuExecutor implements Executor {
    /** Rows whose logits are computed at a time, as many as one task of a GEMM takes; 64 MiB with 128k tokens. */
    private static final int LOGIT_ROWS = 128;

    /** The maximum of in-flight tokens that rejoin at a layer; each is one more row of the layer's GEMMs. */
    private static final int MAX_SLOTS = 256;

    private final ExecutorLimits limits;
    private final Arena arena = Arena.ofShared();
    private final Checkpoint checkpoint;
    private final WorkerPool workers;
    private final DecoderForward forward;
    private final long weightBytes;
    private final KvStores stores;
    private final Activations[] activations = new Activations[2];
    private final SamplingScratch[] samplingScratch;
    private final Queue<StepResult> results = new ArrayDeque<>();
    private final InFlightTokens inFlightTokens;
    private final StepClock clock = new StepClock(Clock.system());
    private Optional<Computed> unsampled = Optional.empty();
    private float[] logits = new float[0];
    private @Nullable Thread pinnedCaller;

    /**
     * A plan whose layers are computed.
     *
     * @param batches how many of {@link #activations} hold its last layer's rows
     * @param paused in-flight tokens that it has paused
     */
    private record Computed(StepPlan plan, int batches, List<Long> paused) {}

    /** An executor in which the attention of in-flight tokens is always back at once. */
    public CpuExecutor(Checkpoint checkpoint, CpuOptions options) {
        this(checkpoint, options, Readiness.allEarly());
    }

    /**
     * An executor with a given readiness of in-flight tokens.
     *
     * @param checkpoint the executor closes it; if this constructor throws, the caller still has to close it
     */
    public CpuExecutor(Checkpoint checkpoint, CpuOptions options, Readiness readiness) {
        this.checkpoint = checkpoint;
        ModelConfig config = checkpoint.config();
        this.workers = new WorkerPool(options.threads(), options.pinThreads());
        try {
            this.limits = ExecutorLimits.builder()
                    .vocabulary(config.vocabulary())
                    .contextTokens(config.contextTokens())
                    .blockTokens(KvStore.BLOCK_TOKENS)
                    .gpuBlocks(options.gpuBlocks())
                    .hostBlocks(options.hostBlocks())
                    .maxBatchTokens(options.maxBatchTokens())
                    .layers(config.layers())
                    .kvBytesPerToken(config.kvBytesPerToken(options.kvType()))
                    .inFlight(MAX_SLOTS, Integer.MAX_VALUE, true)
                    .windows(config.windows())
                    .build();
            this.stores = new KvStores(
                    store(KvTier.GPU, config, options.kvType()), store(KvTier.HOST, config, options.kvType()));
            DecoderWeights weights = loadWeights(checkpoint.spec(), options.weightType());
            this.weightBytes = weights.bytes();
            this.forward = new DecoderForward(
                    checkpoint.spec(),
                    weights,
                    stores,
                    limits.layout(),
                    workers,
                    options.attentionThreads(),
                    options.activations(),
                    arena);
            this.samplingScratch = new SamplingScratch[workers.size()];
            Arrays.setAll(samplingScratch, i -> new SamplingScratch());
            Arrays.setAll(activations, i -> new Activations(checkpoint.spec()));
            this.inFlightTokens = new InFlightTokens(forward, readiness, clock);
        } catch (RuntimeException | Error e) {
            workers.close();
            arena.close();
            throw e;
        }
    }

    private DecoderWeights loadWeights(ModelSpec spec, DataType type) {
        workers.beginStep();
        try {
            MatrixPacker packer =
                    new MatrixPacker(arena, (count, body) -> workers.run(count, (index, worker) -> body.accept(index)));
            return DecoderWeights.load(spec, checkpoint.weights(), type, packer);
        } finally {
            workers.endStep();
        }
    }

    private KvStore store(KvTier tier, ModelConfig config, DataType type) {
        int layers = config.layers() / limits.layout().groups();
        return new KvStore(tier, limits.pages(tier), layers, config.kvHeads(), config.headDim(), type, arena);
    }

    @Override
    public ExecutorLimits limits() {
        return limits;
    }

    /** Fills both KV pools with NaN, for tests; no sequence may be in them. */
    void poisonPools() {
        stores.gpu().poison();
        stores.host().poison();
    }

    /** Bytes of weights that one decode step reads. */
    public long weightBytes() {
        return weightBytes;
    }

    /** The KV pool of a tier, for tests that damage it. */
    KvStore store(KvTier tier) {
        return stores.of(tier);
    }

    @Override
    public void submit(StepPlan plan) {
        submitLayers(plan);
        sample(Set.of());
    }

    @Override
    public void submitLayers(StepPlan plan) {
        if (results.size() == MAX_OUTSTANDING) {
            throw new ExecutorException("more than " + MAX_OUTSTANDING + " plans are outstanding; poll a result first");
        }
        if (unsampled.isPresent()) {
            throw new ExecutorException("plan " + unsampled.get().plan().step()
                    + " waits to be sampled; sample it before the next is submitted");
        }
        if (pinnedCaller != Thread.currentThread()) {
            pinnedCaller = Thread.currentThread();
            workers.pinCaller();
        }
        workers.beginStep();
        try {
            clock.measure(Component.TRANSFER, () -> plan.swaps().forEach(this::swap));
            List<Long> paused = inFlightTokens.park(plan.pause());
            unsampled = Optional.of(new Computed(plan, runLayers(plan), paused));
        } finally {
            workers.endStep(); // threads that compute bitmasks may need the cores until the step samples
        }
    }

    @Override
    public void sample(Set<Long> skipped) {
        Computed step = unsampled.orElseThrow(() -> new ExecutorException("no plan waits to be sampled"));
        unsampled = Optional.empty();
        List<StepResult.Sampled> sampled = new ArrayList<>();
        List<StepResult.Lost> lost = new ArrayList<>();
        workers.beginStep();
        try {
            clock.measure(Component.POST_LAYER, () -> {
                for (int i = 0; i < step.batches(); i++) {
                    sample(activations[i], skipped, sampled, lost);
                }
            });
        } finally {
            workers.endStep();
        }
        results.add(new StepResult(
                step.plan().step(), sampled, inFlightTokens.takeTrace(), step.paused(), lost, clock.take()));
    }

    @Override
    public boolean computesInSubmit() {
        return true;
    }

    private void swap(Swap swap) {
        stores.of(swap.from()).copyTo(stores.of(swap.to()), swap.fromBlocks(), swap.toBlocks());
    }

    /**
     * Runs all layers; two sub-batches alternate as in NEO's Figure 5. Each turn is one sub-batch's attention followed
     * by its linear stage: the post-projection and the next layer's pre-projection. In-flight tokens join the last one.
     *
     * @return the number of sub-batches; 1 with an empty sub-batch if the plan has none, since in-flight tokens may go
     *     on
     */
    private int runLayers(StepPlan plan) {
        List<SubBatch> batches = plan.subBatches().isEmpty() ? List.of(new SubBatch(List.of())) : plan.subBatches();
        int last = batches.size() - 1;
        clock.measure(Component.PRE_LAYER, () -> {
            for (int i = 0; i <= last; i++) {
                int maxInFlight =
                        i == last ? inFlightTokens.count() + plan.admissions().size() : 0;
                activations[i].load(batches.get(i), forward.tileTokens(), maxInFlight);
                if (i == last) {
                    inFlightTokens.admit(plan.admissions(), activations[i]);
                }
                forward.embed(activations[i]);
            }
        });
        for (int i = 0; i <= last; i++) {
            preProjection(plan, i, i == last, 0);
        }
        for (int layer = 0; layer < limits.layers(); layer++) {
            for (int i = 0; i <= last; i++) {
                attention(activations[i], layer);
                if (i == last) {
                    inFlightTokens.rejoin(plan, layer, activations[i]);
                }
                Activations a = activations[i];
                if (layer + 1 == limits.layers()) {
                    a.keepWanted();
                }
                int current = layer;
                clock.measure(Component.LINEAR, () -> forward.postProjection(a, current));
                if (layer + 1 < limits.layers()) {
                    preProjection(plan, i, i == last, layer + 1);
                }
            }
        }
        return batches.size();
    }

    private void preProjection(StepPlan plan, int batch, boolean last, int layer) {
        Activations a = activations[batch];
        clock.measure(Component.LINEAR, () -> forward.preProjection(a, layer));
        if (last) {
            inFlightTokens.leaveBatch(plan.step(), layer, a);
        }
    }

    private void attention(Activations a, int layer) {
        clock.measure(
                Component.PREFILL_ATTENTION, () -> forward.attention(a, layer, Activations.AttentionKind.PREFILL));
        clock.measure(Component.GPU_ATTENTION, () -> forward.attention(a, layer, Activations.AttentionKind.GPU));
        clock.measure(Component.CPU_ATTENTION, () -> forward.attention(a, layer, Activations.AttentionKind.CPU));
    }

    /** Samples, and scores prompts, by the logits of the kept rows. */
    private void sample(
            Activations a, Set<Long> skipped, List<StepResult.Sampled> sampled, List<StepResult.Lost> lost) {
        int width = forward.logitsWidth();
        Throwable[] failures = new Throwable[a.chunks.size()];
        for (int from = 0; from < a.rows; from += LOGIT_ROWS) {
            int count = Math.min(LOGIT_ROWS, a.rows - from);
            if (logits.length < count * width) {
                logits = new float[count * width];
            }
            forward.logits(a, from, count, logits);
            Choice[] choices = new Choice[count];
            int first = from;
            workers.run(count, (index, worker) -> {
                int row = first + index;
                Chunk chunk = a.chunks.get(a.chunkOfRow[row]);
                int position = a.positions[row];
                int vocabulary = limits.vocabulary();
                try {
                    if (chunk.scores(position - chunk.start())) {
                        PromptScorer scorer = chunk.scorer().orElseThrow();
                        scorer.score(position, logits, index * width, vocabulary, samplingScratch[worker]);
                    } else if (!skipped.contains(chunk.sequence())) {
                        TokenSampler sampler = chunk.sampler().orElseThrow();
                        choices[index] = sampler.choose(logits, index * width, vocabulary, samplingScratch[worker]);
                    }
                } catch (RuntimeException | Error e) { // caused by this row's logits or sampler: the other rows go on
                    failures[a.chunkOfRow[row]] = e;
                }
            });
            for (int i = 0; i < count; i++) {
                Chunk chunk = a.chunks.get(a.chunkOfRow[from + i]);
                if (choices[i] != null && failures[a.chunkOfRow[from + i]] == null) {
                    sampled.add(new StepResult.Sampled(chunk.sequence(), choices[i], chunk.site()));
                }
            }
        }
        for (int i = 0; i < failures.length; i++) {
            if (failures[i] != null) {
                String message = "the next token cannot be chosen: " + reason(failures[i]);
                lost.add(new StepResult.Lost(a.chunks.get(i).sequence(), StepResult.Cause.SAMPLING, message, false));
            }
        }
    }

    /** The cause for the client: the message of an executor's exception; of any other exception its type as well. */
    private static String reason(Throwable failure) {
        return failure instanceof SamplingException
                ? Objects.requireNonNull(failure.getMessage()) // its constructor requires one
                : failure.toString();
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
