package dev.tandem.cuda;

import static java.lang.foreign.ValueLayout.JAVA_FLOAT;
import static java.lang.foreign.ValueLayout.JAVA_INT;

import dev.tandem.cuda.CudaForward.Extent;
import dev.tandem.cuda.CudaForward.Part;
import dev.tandem.cuda.Linear.Method;
import dev.tandem.cuda.device.CudaLibraries;
import dev.tandem.cuda.device.Device;
import dev.tandem.cuda.device.DeviceBuffer;
import dev.tandem.cuda.device.Event;
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
import dev.tandem.engine.kv.Place;
import dev.tandem.engine.kv.Swap;
import dev.tandem.engine.sample.Choice;
import dev.tandem.engine.sample.SamplingScratch;
import dev.tandem.engine.sample.TokenSampler;
import dev.tandem.model.Checkpoint;
import java.lang.foreign.MemorySegment;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.List;
import java.util.NavigableMap;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.IntStream;

/**
 * Runs gpu-only step plans on an NVIDIA GPU. Steps of decode rows alone are replayed from CUDA graphs, one for each bucket of
 * row counts; steps with prompt tokens are enqueued kernel by kernel while the GPU works on them. Tokens are chosen on the
 * GPU; requests with penalties, biases or log-probabilities have their row of logits brought to the host.
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
    /** Left for graphs and what the driver takes later. */
    private static final long RESERVE_BYTES = 512L << 20;
    private static final int RING = 4;
    /** What differs between the methods of products: cublasLt leaves the activation to a row-wise kernel. */
    private static final Set<Part> LINEAR = EnumSet.of(Part.PRODUCTS, Part.ROW_WISE);

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
    private final DeviceBuffer gpuPool;
    private final PinnedBuffer hostPool;
    private final PinnedBuffer swapPairs;
    private final StepBuffer decodeInputs;
    private final StepBuffer mixedInputs;
    private final PinnedBuffer chosen;
    private final PinnedBuffer logitsRow;
    private final float[] logits;
    private final SamplingScratch scratch = new SamplingScratch();
    private final ExecutorLimits limits;
    private final NavigableMap<Integer, Graph> graphs = new TreeMap<>();
    private final ArrayDeque<Outstanding> outstanding = new ArrayDeque<>();
    private final Event[] begins = new Event[RING];
    private final Event[] ends = new Event[RING];
    private final MemoryLedger ledger;
    private Thread user;
    private long steps;
    private double busyMillis;
    private double idleMillis;
    private int swapsThisStep;

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
            gpuPool = own(device.allocate(gpuBlocks * shape.blockBytes() * layers(), "the GPU KV pool"));
            stream.fill(gpuPool, 0);
            forward.pool(gpuPool, gpuBlocks);
            int hostBlocks = (int) Math.min(Integer.MAX_VALUE, options.hostBytes() / (shape.blockBytes() * layers()));
            hostPool = own(device.pinned(hostBlocks * shape.blockBytes() * layers(), "the host KV pool"));
            swapPairs = own(device.pinned(16L * gpuBlocks, "block numbers of swaps"));
            int graphRows = roundUp(Math.min(MOST_GRAPH_ROWS, maxSequences));
            int tables = gpuBlocks + maxSequences;
            decodeInputs = own(new StepBuffer(device, graphRows, graphRows, 1, tables, "decode steps"));
            int tiles = options.maxBatchTokens() / shape.tileTokens() + maxSequences + 1;
            mixedInputs = own(new StepBuffer(device, options.maxBatchTokens(), maxSequences, tiles, tables, "mixed steps"));
            int sampled = Math.max(graphRows, maxSequences);
            chosen = own(device.pinned(4L * RING * sampled, "sampled tokens"));
            logitsRow = own(device.pinned(4L * shape.vocabulary(), "a row of logits"));
            logits = new float[shape.vocabulary()];
            for (int i = 0; i < RING; i++) {
                begins[i] = own(device.event());
                ends[i] = own(device.event());
            }
            limits = new ExecutorLimits(
                    checkpoint.config().vocabulary(), contextTokens, ModelShape.BLOCK_TOKENS, gpuBlocks, hostBlocks,
                    options.maxBatchTokens(), layers(), shape.kvBytesPerToken(), false);
            long beforeGraphs = device.memory().free();
            warmUp();
            chooseMethods();
            if (options.graphs()) {
                captureGraphs(graphRows);
            }
            ledger = new MemoryLedger(
                    weights.bytes(), forward.bytes() + products.workspaceBytes() + decodeInputs.bytes() + mixedInputs.bytes(),
                    Math.max(0, beforeGraphs - device.memory().free()), gpuPool.bytes(), hostBlocks * shape.blockBytes() * layers(),
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
        for (int rows = 1024; rows <= options.maxBatchTokens(); rows *= 2) {
            forward.linear().measure(stream, rows);
        }
    }

    /**
     * For each number of rows that has kernels of our own, the method whose products and activations of all layers take
     * least time, replayed from graphs.
     */
    private void chooseMethods() {
        for (int tiles : Kernels.TILES) {
            int rows = 8 * tiles;
            double least = Double.MAX_VALUE;
            Method best = forward.linear().available().getFirst();
            for (Method method : forward.linear().available()) {
                forward.linear().choose(rows, method);
                double time = time(decodeInputs, new Extent(rows, rows, true, 0, LINEAR), 3);
                if (time < least) {
                    least = time;
                    best = method;
                }
            }
            forward.linear().choose(rows, best);
        }
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
                    java.util.Locale.ROOT,
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
            for (int row = 0; row < bucket; row++) {
                decodeInputs.row(row, 0, 0, -1);
                decodeInputs.sample(row, row);
            }
            spread(decodeInputs);
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
        return new GpuTime(busyMillis, idleMillis);
    }

    /** GPU milliseconds of a step, whole and by kind of kernel, each replayed from a graph of its own. */
    public record StepTime(int rows, int context, double whole, double products, double attention, double rowWise) {}

    /**
     * Times a decode step of rows that all have the same context, on random KV. For measurements before serving.
     *
     * @param context tokens of each row, the new one included
     */
    public StepTime timeDecode(int rows, int context, int repeats) {
        device.makeCurrent();
        int blocks = (context - 1) / ModelShape.BLOCK_TOKENS + 1;
        if (rows > decodeInputs.rowCapacity() || (long) rows * blocks > limits.gpuBlocks()) {
            throw new IllegalArgumentException(rows + " rows of " + context + " tokens need " + (long) rows * blocks
                    + " KV blocks of " + limits.gpuBlocks() + " and a step of " + decodeInputs.rowCapacity()
                    + " rows; raise --max-num-seqs or lower --batch");
        }
        kernels.randomFill.launch(
                stream, 4096, 1, gpuPool.address(), gpuPool.bytes() / 2, Integer.MAX_VALUE, Integer.MAX_VALUE, 1L, 0f, 1f);
        decodeInputs.clear();
        for (int row = 0; row < rows; row++) {
            int[] table = new int[blocks];
            for (int i = 0; i < blocks; i++) {
                table[i] = row * blocks + i;
            }
            int slot = table[blocks - 1] * ModelShape.BLOCK_TOKENS + (context - 1) % ModelShape.BLOCK_TOKENS;
            decodeInputs.row(row, row, context - 1, slot);
            decodeInputs.decode(context, decodeInputs.table(table, blocks), shape.config().kvHeads());
            decodeInputs.sample(row, row);
        }
        int bucket = nextBucket(rows);
        for (int row = rows; row < bucket; row++) {
            decodeInputs.row(row, 0, 0, -1);
            decodeInputs.sample(row, row);
        }
        spread(decodeInputs);
        decodeInputs.upload(stream);
        return times(rows, context, decodeInputs, new Extent(bucket, bucket, true, 0), repeats);
    }

    /** Times a step that prefills one prompt of so many tokens. */
    public StepTime timePrefill(int tokens, int repeats) {
        device.makeCurrent();
        if (tokens > limits.maxBatchTokens() || tokens > limits.gpuBlocks() * ModelShape.BLOCK_TOKENS) {
            throw new IllegalArgumentException("a prompt of " + tokens + " tokens does not fit into a step of "
                    + limits.maxBatchTokens() + " rows and " + limits.gpuBlocks() + " KV blocks");
        }
        mixedInputs.clear();
        int[] table = IntStream.range(0, (tokens - 1) / ModelShape.BLOCK_TOKENS + 1).toArray();
        for (int i = 0; i < tokens; i++) {
            mixedInputs.row(i, i % limits.vocabulary(), i, i);
        }
        tiles(mixedInputs, 0, tokens, 0, mixedInputs.table(table, table.length), shape.tileTokens());
        mixedInputs.sample(0, tokens - 1);
        mixedInputs.upload(stream);
        return times(tokens, tokens, mixedInputs, new Extent(tokens, 1, false, mixedInputs.tileCount()), repeats);
    }

    private StepTime times(int rows, int context, StepBuffer inputs, Extent extent, int repeats) {
        return new StepTime(
                rows, context,
                time(inputs, extent, repeats),
                time(inputs, extent.only(EnumSet.of(Part.PRODUCTS)), repeats),
                time(inputs, extent.only(EnumSet.of(Part.ATTENTION)), repeats),
                time(inputs, extent.only(EnumSet.of(Part.ROW_WISE)), repeats));
    }

    /** The median of single replays. */
    private double time(StepBuffer inputs, Extent extent, int repeats) {
        double[] times = new double[repeats];
        forward.run(stream, inputs, extent);
        try (Graph graph = stream.capture(() -> forward.run(stream, inputs, extent))) {
            for (int i = -2; i < repeats; i++) {
                stream.record(begins[0]);
                stream.launch(graph);
                stream.record(ends[0]);
                stream.synchronise();
                times[Math.max(0, i)] = ends[0].millisecondsSince(begins[0]);
            }
        }
        Arrays.sort(times);
        return times[repeats / 2];
    }

    @Override
    public void submit(StepPlan plan) {
        if (outstanding.size() == MAX_OUTSTANDING) {
            throw new ExecutorException("more than " + MAX_OUTSTANDING + " plans are outstanding");
        }
        if (user != Thread.currentThread()) {
            user = Thread.currentThread();
            device.makeCurrent();
        }
        List<Chunk> chunks = ordered(plan);
        try {
            int slot = (int) (steps++ % RING);
            stream.record(begins[slot]);
            swapsThisStep = 0;
            plan.swaps().forEach(this::swap);
            outstanding.add(enqueue(plan, chunks, slot));
            stream.record(ends[slot]);
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
        inputs.clear();
        int decodes = fill(inputs, chunks, sampled);
        for (Chunk chunk : sampled) {
            Optional<TokenSampler.Draw> draw = chunk.sampler().orElseThrow().draw();
            draw.filter(d -> !d.greedy()).ifPresent(d -> inputs.draw(
                    draws.size(), d.temperature(), d.topP(), d.minP(), d.uniform(), d.topK()));
            draws.add(draw);
        }
        if (replay) {
            int bucket = graphs.ceilingKey(rows);
            for (int row = rows; row < bucket; row++) {
                inputs.row(row, 0, 0, -1);
                inputs.sample(row, row);
            }
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
        return chosen.memory().asSlice(chosen.memory().byteSize() / RING * slot);
    }

    /** Writes the step's inputs; returns the rows of decode attention. */
    private int fill(StepBuffer inputs, List<Chunk> chunks, List<Chunk> sampled) {
        int row = 0;
        int decodes = 0;
        for (Chunk chunk : chunks) {
            int count = chunk.rows();
            int length = chunk.start() + count;
            int table = inputs.table(chunk.blocks(), (length - 1) / ModelShape.BLOCK_TOKENS + 1);
            for (int i = 0; i < count; i++) {
                int position = chunk.start() + i;
                int block = chunk.blocks()[position / ModelShape.BLOCK_TOKENS];
                inputs.row(row + i, chunk.tokens()[i], position, block * ModelShape.BLOCK_TOKENS + position % ModelShape.BLOCK_TOKENS);
            }
            if (count == 1) {
                inputs.decode(length, table, shape.config().kvHeads());
                decodes++;
            } else {
                tiles(inputs, row, count, chunk.start(), table, shape.tileTokens());
            }
            row += count;
            if (chunk.sampler().isPresent()) {
                inputs.sample(sampled.size(), row - 1);
                sampled.add(chunk);
            }
        }
        spread(inputs);
        return decodes;
    }

    private void spread(StepBuffer inputs) {
        inputs.spread(forward.attentionBlocks(), shape.decodeWarps());
    }

    /** The last tile of a chunk sees the longest context: it begins first. */
    static void tiles(StepBuffer inputs, int row, int count, int start, int table, int tileTokens) {
        for (int from = (count - 1) / tileTokens * tileTokens; from >= 0; from -= tileTokens) {
            inputs.tile(row + from, Math.min(tileTokens, count - from), start + from, table);
        }
    }

    private void swap(Swap swap) {
        int count = swap.fromBlocks().length;
        for (int i = 0; i < count; i++) {
            swapPairs.memory().setAtIndex(JAVA_INT, 2L * (swapsThisStep + i), swap.fromBlocks()[i]);
            swapPairs.memory().setAtIndex(JAVA_INT, 2L * (swapsThisStep + i) + 1, swap.toBlocks()[i]);
        }
        forward.copyBlocks(
                stream, address(swap.from()), blocks(swap.from()), address(swap.to()), blocks(swap.to()),
                swapPairs.address() + 8L * swapsThisStep, count);
        swapsThisStep += count;
    }

    private long address(Place place) {
        return place == Place.GPU ? gpuPool.address() : hostPool.address();
    }

    private int blocks(Place place) {
        return place == Place.GPU ? limits.gpuBlocks() : limits.hostBlocks();
    }

    @Override
    public StepResult poll() {
        Outstanding step = outstanding.poll();
        if (step == null) {
            throw new ExecutorException("no plan is outstanding");
        }
        try {
            Event end = ends[step.slot()];
            while (!end.reached()) {
                Thread.onSpinWait();
            }
            account(step.slot());
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

    private void account(int slot) {
        busyMillis += ends[slot].millisecondsSince(begins[slot]);
        if (steps > 1) {
            float gap = begins[slot].millisecondsSince(ends[(slot + RING - 1) % RING]);
            // a longer gap is the engine at rest
            idleMillis += gap < 20 ? Math.max(0, gap) : 0;
        }
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
