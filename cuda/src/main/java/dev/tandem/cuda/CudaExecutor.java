package dev.tandem.cuda;

import static java.lang.foreign.ValueLayout.JAVA_FLOAT;
import static java.lang.foreign.ValueLayout.JAVA_INT;

import dev.tandem.cuda.CudaForward.Extent;
import dev.tandem.cuda.device.CudaLibraries;
import dev.tandem.cuda.device.Device;
import dev.tandem.cuda.device.Graph;
import dev.tandem.cuda.device.PinnedBuffer;
import dev.tandem.cuda.device.Stream;
import dev.tandem.cuda.kernels.KernelCompiler;
import dev.tandem.cuda.kernels.Kernels;
import dev.tandem.cuda.kernels.MatrixProducts;
import dev.tandem.engine.batch.Chunk;
import dev.tandem.engine.batch.KvReader;
import dev.tandem.engine.batch.StepPlan;
import dev.tandem.engine.batch.StepResult;
import dev.tandem.engine.batch.StepTimes;
import dev.tandem.engine.batch.SubBatch;
import dev.tandem.engine.execute.Executor;
import dev.tandem.engine.execute.ExecutorException;
import dev.tandem.engine.execute.ExecutorLimits;
import dev.tandem.engine.sample.Choice;
import dev.tandem.engine.sample.SamplingScratch;
import dev.tandem.engine.sample.TokenSampler;
import dev.tandem.model.Checkpoint;
import dev.tandem.model.config.DataType;
import java.lang.foreign.MemorySegment;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.NavigableMap;
import java.util.Optional;
import java.util.TreeMap;

/**
 * Runs gpu-only step plans on an NVIDIA GPU. Steps of decode rows alone are replayed from CUDA graphs, one for each bucket of
 * row counts; steps with prompt tokens are enqueued kernel by kernel while the GPU works on them. Tokens are chosen on the
 * GPU; requests with penalties, biases or log-probabilities have their row of logits brought to the host.
 *
 * <p>A second plan waits in {@link #submit} for the first, whose inputs and logits it overwrites.
 *
 * <p>The host pool is pinned memory in the GPU's block format: preempted KV waits there.
 *
 * <p>Owned by: engine thread. Construction may happen on another thread.
 */
public final class CudaExecutor implements Executor {
    /** Rows up to which decode steps are graphs. */
    private static final int MOST_GRAPH_ROWS = 512;
    /** Above {@link Kernels#SKINNY_ROWS}, products are rounded up to so many rows anyway. */
    private static final int BUCKET_STEP = 64;
    private static final int[] SMALL_BUCKETS = {1, 2, 4, 8, 16, 24, 32, 48, 64};
    /** Compute capability. */
    private static final int LEAST_WITH_BFLOAT16 = 80;
    /** Left for graphs and what the driver takes later. */
    private static final long RESERVE_BYTES = 512L << 20;

    private final CudaOptions options;
    private final Checkpoint checkpoint;
    private final ModelShape shape;
    private final ArrayDeque<AutoCloseable> owned = new ArrayDeque<>();
    private final Device device;
    private final Stream stream;
    private final Kernels kernels;
    private final MatrixProducts products;
    private final CudaWeights weights;
    private final CudaForward forward;
    private final KvPools pools;
    private final StepLayout layout;
    private final StepTimer timer;
    private final GpuClock clock;
    private final StepBuffer decodeInputs;
    private final StepBuffer mixedInputs;
    private final PinnedBuffer chosen;
    private final PinnedBuffer logitsRow;
    private final float[] logits;
    private final SamplingScratch scratch = new SamplingScratch();
    private final ExecutorLimits limits;
    private final NavigableMap<Integer, Graph> graphs = new TreeMap<>();
    private final ArrayDeque<Outstanding> outstanding = new ArrayDeque<>();
    private final ArrayDeque<StepResult> finished = new ArrayDeque<>();
    private final MemoryLedger ledger;
    private Thread user;

    private record Outstanding(StepPlan plan, List<Chunk> sampled, List<Optional<TokenSampler.Draw>> draws, int slot) {}

    /**
     * Takes ownership of the checkpoint; when it fails, the checkpoint stays the caller's.
     *
     * @throws CudaException when the machine, its libraries or its memory do not suffice
     */
    public CudaExecutor(Checkpoint checkpoint, CudaOptions options, CudaLibraries libraries, KernelCompiler compiler) {
        this.options = options;
        this.checkpoint = checkpoint;
        this.shape = new ModelShape(checkpoint.config(), options.type());
        try {
            device = own(new Device(
                    CudaLibraries.driver().orElseThrow(() -> new CudaException("this machine has no NVIDIA driver (libcuda.so.1)")),
                    options.device(), options.multiprocessorLimit()));
            if (options.type() == DataType.BFLOAT16 && device.capability() < LEAST_WITH_BFLOAT16) {
                throw new CudaException(device.name() + " has no bfloat16; use --dtype float16");
            }
            long before = device.memory().free();
            stream = own(device.stream("steps"));
            kernels = own(new Kernels(device, shape, compiler));
            products = own(new MatrixProducts(libraries.cublasLt(), device, shape.type()));
            weights = own(new CudaWeights(device, stream, kernels, shape, checkpoint));
            int contextTokens = checkpoint.config().usableContext();
            int maxSequences = options.maxSequences();
            forward = own(new CudaForward(
                    device, stream, kernels, products, weights, shape, options.maxBatchTokens(), maxSequences));
            measureProducts();
            long used = before - device.memory().free();
            int gpuBlocks = options.gpuBlocks().orElseGet(() -> affordableBlocks(used));
            pools = own(new KvPools(device, shape, gpuBlocks, options.hostBytes()));
            stream.fill(pools.gpu(), 0);
            forward.pool(pools.gpu(), gpuBlocks);
            layout = new StepLayout(shape, forward.attentionBlocks());
            timer = own(new StepTimer(device, stream, forward, layout, shape));
            clock = own(new GpuClock(device));
            int graphRows = roundUp(Math.min(MOST_GRAPH_ROWS, maxSequences));
            int tables = gpuBlocks + maxSequences;
            decodeInputs = own(new StepBuffer(device, graphRows, graphRows, 1, tables, "decode steps"));
            int tiles = options.maxBatchTokens() / shape.tileTokens() + maxSequences + 1;
            mixedInputs = own(new StepBuffer(device, options.maxBatchTokens(), maxSequences, tiles, tables, "mixed steps"));
            int sampled = Math.max(graphRows, maxSequences);
            chosen = own(device.pinned(4L * GpuClock.RING * sampled, "sampled tokens"));
            logitsRow = own(device.pinned(4L * shape.vocabulary(), "a row of logits"));
            logits = new float[shape.vocabulary()];
            limits = new ExecutorLimits(
                    checkpoint.config().vocabulary(), contextTokens, ModelShape.BLOCK_TOKENS, gpuBlocks, pools.hostBlocks(),
                    options.maxBatchTokens(), layers(), shape.kvBytesPerToken(), false);
            long beforeGraphs = device.memory().free();
            warmUp();
            timer.chooseMethods(decodeInputs);
            if (options.graphs()) {
                captureGraphs(graphRows);
            }
            ledger = new MemoryLedger(
                    weights.bytes(), forward.bytes() + products.workspaceBytes() + decodeInputs.bytes() + mixedInputs.bytes(),
                    Math.max(0, beforeGraphs - device.memory().free()), pools.gpu().bytes(), pools.hostBytes(),
                    device.memory().free(), device.memory().total());
        } catch (RuntimeException | Error e) {
            closeOwned();
            throw e;
        }
    }

    private <T extends AutoCloseable> T own(T resource) {
        owned.push(resource);
        return resource;
    }

    private int layers() {
        return shape.config().layers();
    }

    private static int roundUp(int rows) {
        return rows <= Kernels.SKINNY_ROWS ? Kernels.SKINNY_ROWS : (rows + BUCKET_STEP - 1) / BUCKET_STEP * BUCKET_STEP;
    }

    private void measureProducts() {
        int most = Math.min(MOST_GRAPH_ROWS, options.maxSequences());
        for (int rows = Kernels.SKINNY_ROWS; rows <= roundUp(most); rows += BUCKET_STEP) {
            forward.linear().measure(stream, rows);
            forward.linear().measureHead(stream, rows);
        }
        for (int rows = 1024; rows < options.maxBatchTokens(); rows *= 2) {
            forward.linear().measure(stream, rows);
        }
        // prompts that wait fill steps to the last token
        forward.linear().measure(stream, options.maxBatchTokens());
    }

    /** Which products decode steps use. */
    public String products() {
        return forward.linear().chosen();
    }

    private int affordableBlocks(long used) {
        Device.Memory memory = device.memory();
        long budget = Math.min((long) (options.memoryUtilization() * memory.total()) - used, memory.free()) - RESERVE_BYTES;
        long blocks = budget / (shape.blockBytes() * layers());
        if (blocks < 1) {
            throw new CudaException(String.format(
                    Locale.ROOT,
                    "weights and activations take %.2f GiB of the %.2f GiB that --gpu-memory-utilization %.2f allows, which leaves"
                            + " no room for KV blocks; raise it, or lower --max-num-batched-tokens",
                    used / 0x1p30, options.memoryUtilization() * memory.total() / 0x1p30, options.memoryUtilization()));
        }
        return (int) Math.min(blocks, Integer.MAX_VALUE / ModelShape.BLOCK_TOKENS);
    }

    /** Every kernel once, so that nothing is loaded while a graph is captured. */
    private void warmUp() {
        for (int bucket = 1; bucket <= decodeInputs.rowCapacity(); bucket = nextBucket(bucket + 1)) {
            decodeInputs.clear();
            StepLayout.pad(decodeInputs, 0, bucket);
            layout.spread(decodeInputs);
            decodeInputs.upload(stream);
            forward.run(stream, decodeInputs, new Extent(bucket, bucket, true, 0));
            stream.synchronise();
        }
    }

    private void captureGraphs(int graphRows) {
        for (int bucket = 1; bucket <= graphRows; bucket = nextBucket(bucket + 1)) {
            int rows = bucket;
            graphs.put(rows, own(stream.capture(
                    () -> forward.run(stream, decodeInputs, new Extent(rows, rows, true, 0)))));
        }
    }

    private static int nextBucket(int rows) {
        for (int bucket : SMALL_BUCKETS) {
            if (rows <= bucket) {
                return bucket;
            }
        }
        return roundUp(rows);
    }

    @Override
    public ExecutorLimits limits() {
        return limits;
    }

    /** Where the memory went. */
    public MemoryLedger ledger() {
        return ledger;
    }

    public Device device() {
        return device;
    }

    /** Bytes of weights that a decoding step reads. */
    public long weightBytes() {
        return weights.bytesRead();
    }

    /**
     * GPU time inside steps and between a step and the next one, in milliseconds, since the start.
     *
     * @param idle of steps that followed another without the engine resting
     */
    public record GpuTime(double busy, double idle) {}

    public GpuTime gpuTime() {
        return new GpuTime(clock.busyMillis(), clock.idleMillis());
    }

    /** Times decode steps on random KV. For measurements before serving. */
    public StepTimer.StepTime timeDecode(int rows, int context, int repeats) {
        device.makeCurrent();
        kernels.randomFill.launch(
                stream, 4096, 1, pools.gpu().address(), pools.gpu().bytes() / 2, Integer.MAX_VALUE, Integer.MAX_VALUE, 1L, 0f, 1f);
        return timer.decode(decodeInputs, rows, nextBucket(rows), context, limits.gpuBlocks(), repeats);
    }

    /** Times a step that prefills one prompt of so many tokens. */
    public StepTimer.StepTime timePrefill(int tokens, int repeats) {
        device.makeCurrent();
        return timer.prefill(mixedInputs, tokens, limits.gpuBlocks(), repeats);
    }

    @Override
    public void submit(StepPlan plan) {
        if (outstanding.size() + finished.size() == MAX_OUTSTANDING) {
            throw new ExecutorException("more than " + MAX_OUTSTANDING + " plans are outstanding");
        }
        if (user != Thread.currentThread()) {
            user = Thread.currentThread();
            device.makeCurrent();
        }
        List<Chunk> chunks = ordered(plan);
        try {
            if (!outstanding.isEmpty()) {
                finished.add(complete(outstanding.poll())); // its inputs and logits are about to be overwritten
            }
            int slot = clock.begin(stream);
            pools.beginStep();
            plan.swaps().forEach(swap -> pools.swap(stream, forward, swap));
            outstanding.add(enqueue(plan, chunks, slot));
            clock.end(stream, slot);
        } catch (CudaException e) {
            throw new ExecutorException(e.getMessage(), e);
        }
    }

    /** Chunks of one row first: they share the decode kernel. */
    private static List<Chunk> ordered(StepPlan plan) {
        if (plan.subBatches().size() > 1 || !plan.admissions().isEmpty() || plan.slotsPerLayer() > 0) {
            throw new ExecutorException("the CUDA executor runs gpu-only steps; this plan has two sub-batches or rows in flight");
        }
        List<Chunk> chunks = new ArrayList<>();
        for (SubBatch batch : plan.subBatches()) {
            batch.chunks().stream().filter(chunk -> chunk.rows() == 1).forEach(chunks::add);
            batch.chunks().stream().filter(chunk -> chunk.rows() > 1).forEach(chunks::add);
        }
        for (Chunk chunk : chunks) {
            if (chunk.reader() != KvReader.GPU_FROM_GPU) {
                throw new ExecutorException("the CUDA executor runs gpu-only steps; this plan has a row read by " + chunk.reader());
            }
        }
        return chunks;
    }

    private Outstanding enqueue(StepPlan plan, List<Chunk> chunks, int slot) {
        List<Chunk> sampled = new ArrayList<>();
        List<Optional<TokenSampler.Draw>> draws = new ArrayList<>();
        if (chunks.isEmpty()) {
            return new Outstanding(plan, sampled, draws, slot);
        }
        int rows = chunks.stream().mapToInt(Chunk::rows).sum();
        boolean replay = chunks.getLast().rows() == 1
                && rows <= (graphs.isEmpty() ? 0 : graphs.lastKey())
                && chunks.stream().allMatch(chunk -> chunk.sampler().isPresent());
        StepBuffer inputs = replay ? decodeInputs : mixedInputs;
        int decodes = layout.fill(inputs, chunks, sampled);
        for (Chunk chunk : sampled) {
            Optional<TokenSampler.Draw> draw = chunk.sampler().orElseThrow().draw();
            draw.filter(d -> !d.greedy()).ifPresent(d -> inputs.draw(
                    draws.size(), d.temperature(), d.topP(), d.minP(), d.uniform(), d.topK()));
            draws.add(draw);
        }
        if (replay) {
            int bucket = graphs.ceilingKey(rows);
            StepLayout.pad(inputs, rows, bucket);
            inputs.upload(stream);
            stream.launch(graphs.get(bucket));
        } else {
            inputs.upload(stream);
            forward.run(stream, inputs, new Extent(rows, sampled.size(), decodes > 0, inputs.tileCount()));
        }
        if (inputs.drawCount() > 0) {
            forward.sample(stream, inputs, inputs.drawCount());
        }
        if (!sampled.isEmpty()) {
            stream.download(chosenTokens(slot), forward.chosen(), 0, 4L * sampled.size());
        }
        return new Outstanding(plan, sampled, draws, slot);
    }

    private MemorySegment chosenTokens(int slot) {
        return chosen.memory().asSlice(chosen.memory().byteSize() / GpuClock.RING * slot);
    }

    @Override
    public StepResult poll() {
        if (!finished.isEmpty()) {
            return finished.poll();
        }
        if (outstanding.isEmpty()) {
            throw new ExecutorException("no plan is outstanding");
        }
        return complete(outstanding.poll());
    }

    private StepResult complete(Outstanding step) {
        try {
            clock.await(step.slot());
            List<StepResult.Sampled> sampled = new ArrayList<>(step.sampled().size());
            MemorySegment tokens = chosenTokens(step.slot());
            for (int i = 0; i < step.sampled().size(); i++) {
                Chunk chunk = step.sampled().get(i);
                sampled.add(new StepResult.Sampled(chunk.sequence(), choice(chunk, step.draws().get(i), i, tokens.getAtIndex(JAVA_INT, i))));
            }
            return new StepResult(step.plan().step(), sampled, List.of(), List.of(), StepTimes.NONE);
        } catch (CudaException e) {
            throw new ExecutorException(e.getMessage(), e);
        }
    }

    private Choice choice(Chunk chunk, Optional<TokenSampler.Draw> draw, int index, int token) {
        if (token < 0) {
            throw new ExecutorException("the model produced logits that are not numbers (NaN)");
        }
        TokenSampler sampler = chunk.sampler().orElseThrow();
        if (draw.isPresent()) {
            return sampler.chosen(token);
        }
        readLogits(index);
        return sampler.choose(logits, 0, limits.vocabulary(), scratch);
    }

    /** The logits of a row sampled in the last step. */
    float[] logits(int index) {
        readLogits(index);
        return Arrays.copyOf(logits, limits.vocabulary());
    }

    private void readLogits(int index) {
        stream.download(logitsRow.memory(), forward.logits(), 4L * index * shape.vocabulary(), 4L * shape.vocabulary());
        stream.synchronise();
        MemorySegment.copy(logitsRow.memory(), JAVA_FLOAT, 0, logits, 0, logits.length);
    }

    @Override
    public void close() {
        device.makeCurrent();
        closeOwned();
        checkpoint.close();
    }

    private void closeOwned() {
        while (!owned.isEmpty()) {
            try {
                owned.pop().close();
            } catch (RuntimeException e) {
                // after a fault of the GPU nothing can be freed any more; the process's end frees it
                System.getLogger(CudaExecutor.class.getName())
                        .log(System.Logger.Level.DEBUG, "not freed: {0}", e.getMessage());
            } catch (Exception e) {
                throw new IllegalStateException(e);
            }
        }
    }
}
