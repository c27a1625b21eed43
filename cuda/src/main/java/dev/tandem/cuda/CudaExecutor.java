package dev.tandem.cuda;

import dev.tandem.cpu.decode.BlockFormat;
import dev.tandem.cpu.decode.DecodeImplementations;
import dev.tandem.cpu.decode.PagedDecodeAttention;
import dev.tandem.cpu.topology.CpuTopology;
import dev.tandem.cuda.device.CudaLibraries;
import dev.tandem.cuda.device.Device;
import dev.tandem.cuda.device.GpuMemoryLedger;
import dev.tandem.cuda.device.Stream;
import dev.tandem.cuda.ffi.CudaException;
import dev.tandem.cuda.forward.AttentionLauncher;
import dev.tandem.cuda.forward.CudaForward;
import dev.tandem.cuda.forward.Extent;
import dev.tandem.cuda.forward.ForwardBuffers;
import dev.tandem.cuda.forward.HostTransferLauncher;
import dev.tandem.cuda.forward.RowLauncher;
import dev.tandem.cuda.forward.SmPartition;
import dev.tandem.cuda.gemm.LayerGemms;
import dev.tandem.cuda.hostattention.HostAttentionQueues;
import dev.tandem.cuda.hostattention.HostAttentionWorkers;
import dev.tandem.cuda.hostattention.HostFormat;
import dev.tandem.cuda.hostattention.HostLinkMemory;
import dev.tandem.cuda.hostattention.HostTokenTracker;
import dev.tandem.cuda.kernels.KernelCompiler;
import dev.tandem.cuda.kernels.Kernels;
import dev.tandem.cuda.kernels.ModelShape;
import dev.tandem.cuda.kv.KvPools;
import dev.tandem.cuda.sampling.GpuSampler;
import dev.tandem.cuda.sampling.SampleReport;
import dev.tandem.cuda.step.GpuClock;
import dev.tandem.cuda.step.GraphCache;
import dev.tandem.cuda.step.PlanRows;
import dev.tandem.cuda.step.StepBuffer;
import dev.tandem.cuda.step.StepDeadline;
import dev.tandem.cuda.step.StepLauncher;
import dev.tandem.cuda.step.StepLauncher.Launched;
import dev.tandem.cuda.step.StepLayout;
import dev.tandem.cuda.step.StepTrace;
import dev.tandem.cuda.tune.CudaProfiler;
import dev.tandem.cuda.tune.CudaTimings;
import dev.tandem.cuda.tune.GemmAutotuner;
import dev.tandem.cuda.tune.StepTimer;
import dev.tandem.cuda.weights.CudaWeights;
import dev.tandem.engine.clock.Clock;
import dev.tandem.engine.cost.Profile;
import dev.tandem.engine.executor.Executor;
import dev.tandem.engine.executor.ExecutorException;
import dev.tandem.engine.executor.ExecutorLimits;
import dev.tandem.engine.kv.StagingSize;
import dev.tandem.engine.observe.Timeline;
import dev.tandem.engine.step.AttentionSite;
import dev.tandem.engine.step.Chunk;
import dev.tandem.engine.step.StepPlan;
import dev.tandem.engine.step.StepResult;
import dev.tandem.engine.step.StepTimes;
import dev.tandem.model.Checkpoint;
import dev.tandem.model.config.ModelConfig;
import java.lang.foreign.MemorySegment;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.function.UnaryOperator;

/**
 * Runs step plans on an NVIDIA GPU. Steps of few rows are replayed from CUDA graphs, one per bucket of row counts.
 * Large steps, and those of two sub-batches, are enqueued kernel by kernel while the GPU works on them. The GPU samples
 * the tokens. The engine samples on the host where a request combines log-probabilities with penalties or biases, or
 * has these on an in-flight token.
 *
 * <p>With attention threads, sequences on the host tier decode too. In async overlap, the last rows of a step are
 * slots: in-flight tokens leave the batch after each QKV projection and rejoin it in a slot once
 * {@link HostAttentionWorkers} have returned their attention ({@link HostLinkMemory}). The GPU never waits for them,
 * and the engine thread does nothing per layer. With same-layer tokens (simple offload, NEO's sub-batches) the GPU
 * waits in each layer until the CPU has attended; the other sub-batch hides that wait.
 *
 * <p>Async scheduling: while a step runs that is one graph and whose logits the host does not need, the next may be
 * submitted. Its placeholder tokens are on the GPU. When the next step moves KV or waits for the CPU, {@link #submit}
 * waits for the first.
 *
 * <p>Owned by: engine thread. Construction may happen on another thread.
 */
public final class CudaExecutor implements Executor {
    /** Seconds between the steps of a busy engine, as measured on an H200. */
    private static final double STEP_OVERHEAD = 60e-6;
    /** Max logit adjustments of a step; they take a MiB. */
    private static final int MAX_ADJUSTMENTS = 1 << 16;
    /**
     * Max wait for the running step when the executor is closed, so that a server whose GPU hangs ends within five
     * seconds.
     */
    private static final long CLOSE_NANOS = 2_000_000_000L;

    private final CudaOptions options;
    private final Checkpoint checkpoint;
    private final ModelShape shape;
    private final Owned owned = new Owned();
    private final MemoryPlan plan;
    private final Device device;
    private final Stream stream;
    private final CudaWeights weights;
    private final CudaForward forward;
    private final KvPools pools;
    private final StepTimer timer;
    private final CudaTimings timings;
    private final GpuClock clock;
    private final StepLauncher.Inputs inputs;
    private final SampleReport chosen;
    private final ExecutorLimits limits;
    private final StepLauncher launcher;
    private final String gemms;
    /** Empty without attention threads. */
    private final Optional<HostTokenTracker> hostTokens;

    private final Clock time;
    private final Timeline timeline;
    private final StepTrace trace;
    private final ArrayDeque<Outstanding> outstanding = new ArrayDeque<>();
    private final ArrayDeque<StepResult> finished = new ArrayDeque<>();
    private final GpuMemoryLedger ledger;
    private StepDeadline deadline = StepDeadline.USUAL;
    private boolean allowsNext;
    private Thread user;
    /** The step that the engine thread waits for; other threads read it. */
    private volatile Optional<InFlightStep> underWay = Optional.empty();
    /** For tests. */
    private boolean poisons;

    private int poisoned;

    /**
     * A step that has been submitted.
     *
     * @param clock its slot in the clock's ring
     * @param limitNanos max time on the GPU
     */
    private record Outstanding(StepPlan plan, Launched launched, int clock, long limitNanos) {}

    /**
     * A step that is being submitted or runs.
     *
     * @param began when its launch began, or when the GPU finished the step before
     */
    private record InFlightStep(long step, long began, long limitNanos) {}

    /**
     * Takes ownership of the checkpoint; when it fails, the checkpoint stays the caller's.
     *
     * @throws CudaException when the machine, its libraries or its memory do not suffice
     */
    public CudaExecutor(
            Checkpoint checkpoint,
            CudaOptions options,
            CudaLibraries libraries,
            KernelCompiler compiler,
            Clock time,
            Timeline timeline) {
        this(checkpoint, options, libraries, compiler, time, timeline, UnaryOperator.identity());
    }

    /** @param attention replaces the fastest implementation of attention, so that tests can make it fail */
    CudaExecutor(
            Checkpoint checkpoint,
            CudaOptions options,
            CudaLibraries libraries,
            KernelCompiler compiler,
            Clock time,
            Timeline timeline,
            UnaryOperator<PagedDecodeAttention> attention) {
        this.options = options;
        this.checkpoint = checkpoint;
        this.shape = new ModelShape(checkpoint.config(), options.type());
        this.plan = MemoryPlan.of(options);
        this.time = time;
        this.timeline = timeline;
        try {
            boolean hasHostTier = options.attentionThreads() > 0;
            requireHostTier(options, shape.config(), libraries);
            Hardware hardware = Hardware.open(options, shape, libraries, compiler, time, owned);
            device = hardware.device();
            stream = hardware.stream();
            Kernels kernels = hardware.kernels();

            // weights, and all memory whose size does not depend on free memory
            weights = owned.own(new CudaWeights(device, stream, kernels, shape, checkpoint));
            SmPartition partition = SmPartition.of(
                    shape,
                    device.multiprocessors(),
                    kernels.decodeAttention.residentBlocks(),
                    kernels.promptsLeaveRoom(),
                    device.bandwidth());
            ForwardBuffers buffers = owned.own(new ForwardBuffers(device, stream, kernels, partition, plan.rows()));
            LayerGemms layerGemms = owned.own(new LayerGemms(
                    device,
                    kernels,
                    hardware.library(),
                    weights,
                    buffers.logits().values()));
            GemmAutotuner autotuner = new GemmAutotuner(layerGemms, hardware.choices());
            autotuner.algorithms(
                    stream,
                    buffers.activations(0),
                    plan.graphRowsWithSlots(),
                    plan.sampledRows(),
                    plan.maxRows(),
                    plan.slots());

            // the KV pools take the remaining memory
            long used = hardware.used();
            int kvBlocks = options.gpuBlocks().orElseGet(() -> {
                Device.Memory memory = device.memory();
                return plan.kvBlocks(shape, options.memoryUtilization(), used, memory.free(), memory.total());
            });
            StagingSize staging = plan.staging(shape);
            int gpuBlocks = staging.poolBlocks(kvBlocks, shape.kvLayout());
            pools = owned.own(new KvPools(
                    device,
                    kernels,
                    shape,
                    gpuBlocks,
                    staging,
                    options.hostBytes(),
                    plan.maxSequences(),
                    options.kvChecksums()));
            stream.fill(pools.gpu(), 0);
            Optional<HostLinkMemory> linkMemory = hasHostTier ? Optional.of(owned.own(linkMemory())) : Optional.empty();
            long hostMemory = linkMemory.map(HostLinkMemory::address).orElse(0L);
            CudaForward untuned = new CudaForward(
                    weights,
                    layerGemms,
                    layerGemms.plan(),
                    buffers,
                    pools,
                    new CudaForward.Launchers(
                            new RowLauncher(kernels, weights, buffers, pools, hostMemory),
                            new AttentionLauncher(kernels, partition, buffers, pools, hostMemory),
                            owned.own(new HostTransferLauncher(device, kernels, shape, hostMemory))));
            clock = owned.own(new GpuClock(device));
            inputs = inputs(plan.tables(gpuBlocks, staging));
            trace = owned.own(new StepTrace(device, timeline, time, layers()));
            chosen = owned.own(new SampleReport(
                    device,
                    stream,
                    buffers.logits().values(),
                    shape,
                    Math.max(plan.graphRows(), plan.maxSequences()) + 2 * plan.slots(),
                    GpuClock.RING));

            // tuning
            long beforeGraphs = device.memory().free();
            StepLayout layout = new StepLayout(partition);
            warmUp(untuned, layout);
            StepTimer untunedTimer = owned.own(new StepTimer(device, stream, untuned, layout, shape));
            forward = untuned.with(autotuner.plan(untunedTimer, untuned, inputs.graph(), plan.maxRows()));
            timer = untunedTimer.of(forward);
            int piggybacked = autotuner.piggybackedTokens(timer, inputs.graph(), plan.graphRows());
            autotuner.keep();
            gemms = autotuner.text(forward.plan());
            limits = limits(gpuBlocks, piggybacked);

            // graphs
            GraphCache graphs = owned.own(new GraphCache(stream, forward, inputs.graph(), pools, shape));
            if (options.graphs()) {
                graphs.capture(plan.decodeRows());
            }
            ledger = new GpuMemoryLedger(
                    weights.bytes(),
                    buffers.bytes() + inputs.graph().bytes() + inputs.first().bytes(),
                    layerGemms.bytes()
                            + hardware.library().workspaceBytes()
                            + Math.max(0, beforeGraphs - device.memory().free()),
                    gpuBlocks * shape.kvLayout().blockBytes(),
                    staging.bytes(),
                    device.memory().free(),
                    device.memory().total());
            timings = new CudaTimings(device, stream, kernels, pools, timer, inputs.graph(), inputs.first(), gpuBlocks);
            hostTokens = linkMemory.map(memory ->
                    owned.own(new HostTokenTracker(memory.queues(), startWorkers(memory.queues(), attention))));
            launcher = new StepLauncher(
                    stream,
                    new GpuSampler(kernels, shape, buffers.logits(), hostMemory),
                    pools,
                    layout,
                    graphs,
                    inputs,
                    hostTokens,
                    layers());
        } catch (RuntimeException | Error e) {
            closeOwned();
            throw e;
        }
    }

    private static void requireHostTier(CudaOptions options, ModelConfig config, CudaLibraries libraries) {
        boolean hasHostTier = options.attentionThreads() > 0;
        if (hasHostTier || options.kvChecksums()) {
            hostObstacle(config).ifPresent(why -> {
                throw new CudaException(
                        why + "; use --strategy gpu-only" + (options.kvChecksums() ? " without --kv-checksums" : ""));
            });
        }
        if (hasHostTier) {
            blockingLaunches(libraries).ifPresent(why -> {
                throw new CudaException(why);
            });
        }
    }

    private HostLinkMemory linkMemory() {
        long longestStep = StepDeadline.USUAL.nanos(plan.maxRows() + plan.slots(), false, 0);
        return new HostLinkMemory(device, stream, shape, 2 * options.watchdogNanos(), longestStep);
    }

    /** @param tables max block numbers of a step */
    private StepLauncher.Inputs inputs(int tables) {
        int tiles = plan.tiles(shape);
        StepBuffer graph = owned.own(new StepBuffer(
                device,
                plan.graphRowsWithSlots(),
                plan.graphRowsWithSlots(),
                GraphCache.maxTiles(plan.graphRowsWithSlots(), plan.maxSequences(), shape),
                tables,
                MAX_ADJUSTMENTS,
                "steps replayed from graphs"));
        StepBuffer first = owned.own(new StepBuffer(
                device,
                plan.maxRows() + plan.slots(),
                plan.sampledRows(),
                tiles,
                tables,
                MAX_ADJUSTMENTS,
                "mixed steps"));
        Optional<StepBuffer> second = plan.slots() == 0
                ? Optional.empty()
                : Optional.of(owned.own(new StepBuffer(
                        device, plan.sampledRows(), plan.sampledRows(), tiles, tables, 0, "second sub-batches")));
        return new StepLauncher.Inputs(graph, options.graphs() ? plan.graphRows() : 0, first, second);
    }

    private ExecutorLimits limits(int gpuBlocks, int piggybacked) {
        boolean hasHostTier = options.attentionThreads() > 0;
        return ExecutorLimits.builder()
                .vocabulary(checkpoint.config().vocabulary())
                .contextTokens(checkpoint.config().usableContext())
                .blockTokens(ModelShape.BLOCK_TOKENS)
                .hostBlockTokens(HostFormat.BLOCK_TOKENS)
                .gpuBlocks(gpuBlocks)
                .stagingBlocks(plan.staging(shape).blocks(shape.kvLayout()))
                .hostBlocks(pools.hostBlocks())
                .maxBatchTokens(options.maxBatchTokens())
                .layers(layers())
                .kvBytesPerToken(shape.kvBytesPerToken())
                .overlaps(hasHostTier)
                .inFlight(plan.slots(), hasHostTier ? HostAttentionQueues.MAX : 0, false)
                .piggybackedTokens(piggybacked)
                .build();
    }

    private HostAttentionWorkers startWorkers(
            HostAttentionQueues queues, UnaryOperator<PagedDecodeAttention> attention) {
        ModelConfig config = shape.config();
        int subtasks = HostAttentionQueues.subtasks(config);
        HostAttentionWorkers.Attention implementations = new HostAttentionWorkers.Attention(
                attention.apply(fastest(config, 1)),
                attention.apply(fastest(config, subtasks)),
                attention.apply(fastest(config, subtasks / HostAttentionQueues.subtasksPerTake(config))));
        return new HostAttentionWorkers(
                queues,
                implementations,
                pools::hostBlock,
                time,
                timeline,
                options.attentionThreads(),
                new HostAttentionWorkers.Cores(
                        CpuTopology.find(), options.pinThreads(), HostAttentionWorkers.CORES_LEFT),
                options.watchdogNanos());
    }

    /** The fastest implementation for the KV heads of one of so many equal shares. */
    private PagedDecodeAttention fastest(ModelConfig config, int shares) {
        BlockFormat format = new BlockFormat(config.kvHeads() / shares, config.headDim(), shape.type());
        return DecodeImplementations.all(format, config.heads() / shares).getFirst();
    }

    private int layers() {
        return shape.config().layers();
    }

    /** Which methods compute the GEMMs of decode steps, and when these were measured. */
    public String gemms() {
        return gemms;
    }

    /**
     * Runs a decode step of each size that is replayed from a graph, so that a faulty kernel fails at the start. All
     * kernels are loaded before: the project's own with their modules, cublasLt's by {@link GemmAutotuner#algorithms}.
     */
    private void warmUp(CudaForward untuned, StepLayout layout) {
        StepBuffer step = inputs.graph();
        for (int bucket = 1; bucket <= plan.decodeRows(); bucket = GraphCache.bucket(bucket + 1)) {
            step.clear();
            StepLayout.pad(step, 0, bucket);
            layout.spread(step, 0);
            step.upload(stream);
            untuned.run(stream, step, Extent.decode(bucket, bucket));
            stream.synchronise();
        }
    }

    @Override
    public ExecutorLimits limits() {
        return limits;
    }

    /** Max in-flight tokens that rejoin the batch at a layer. */
    public static int maxSlots() {
        return HostLinkMemory.MAX_SLOTS;
    }

    /** Max host tokens at a time, one per sequence. */
    public static int maxHostTokens() {
        return HostAttentionQueues.MAX;
    }

    /** Why the CPU's attention cannot serve a model; empty when it can. */
    public static Optional<String> hostObstacle(ModelConfig config) {
        return HostFormat.obstacle(config);
    }

    /** Why the CPU's attention cannot run in this environment; empty when it can. */
    static Optional<String> blockingLaunches(CudaLibraries libraries) {
        return libraries.launchesBlock()
                ? Optional.of(
                        "CUDA_LAUNCH_BLOCKING makes every launch wait for its kernel, and the kernel that transfers"
                                + " host tokens between GPU and CPU ends only after kernels launched later: no "
                                + "step would end."
                                + " Unset it,"
                                + " or use --strategy gpu-only")
                : Optional.empty();
    }

    /** How the GPU and host memory is used. */
    public GpuMemoryLedger ledger() {
        return ledger;
    }

    public Device device() {
        return device;
    }

    /** The attention threads, for the log; empty without any. */
    public Optional<String> hostAttention() {
        return hostTokens
                .map(HostTokenTracker::workers)
                .map(w -> "host attention: " + w.count() + " threads" + w.placement() + ", " + w.implementation());
    }

    /** Bytes of weights that a decoding step reads. */
    public long weightBytes() {
        return weights.bytesRead();
    }

    /**
     * GPU time inside steps and between a step and the next one, in milliseconds, since the start.
     *
     * @param idle between steps that followed one another while the engine had work
     */
    public record GpuTime(double busy, double idle) {}

    /** GPU time since the start. */
    public GpuTime gpuTime() {
        return new GpuTime(clock.busyMillis(), clock.idleMillis());
    }

    /** Times steps, before serving. */
    public CudaTimings timings() {
        return timings;
    }

    /**
     * Measures the profile that the strategies' cost model uses, before serving. Overwrites the KV of both pools.
     *
     * @throws CudaException without attention threads or host blocks
     */
    public Profile profile(String name) {
        if (hostTokens.isEmpty()) {
            throw new CudaException("profiling needs threads for the CPU's attention: use a strategy with a host tier");
        }
        if (pools.hostBlocks() == 0) {
            throw new CudaException("profiling needs host KV, and the host pool has no block; raise --host-kv");
        }
        device.makeCurrent();
        timings.randomise();
        CudaProfiler profiler = new CudaProfiler(
                timer,
                stream,
                pools,
                shape,
                inputs.graph(),
                inputs.first(),
                inputs.second().orElseThrow(),
                hostTokens.get(),
                time,
                limits.gpuBlocks());
        return profiler.measure(name, plan.decodeRows(), options.maxBatchTokens(), STEP_OVERHEAD);
    }

    @Override
    public void submit(StepPlan plan) {
        if (outstanding.size() + finished.size() == MAX_OUTSTANDING) {
            throw new ExecutorException("more than " + MAX_OUTSTANDING + " plans are outstanding");
        }
        if (user != Thread.currentThread()) {
            user = Thread.currentThread();
            device.makeCurrent();
            hostTokens.ifPresent(tokens -> tokens.workers().pinEngine());
        }
        List<List<Chunk>> batches = PlanRows.ordered(plan, hostTokens.isPresent());
        long limitNanos = limitNanos(batches, PlanRows.slots(plan));
        try {
            StepLauncher.LaunchKind kind = launcher.kindOf(batches);
            boolean isShort = plan.swaps().isEmpty() && kind == StepLauncher.LaunchKind.ONE_GRAPH;
            if (!outstanding.isEmpty() && !(allowsNext && isShort)) {
                finished.add(complete(outstanding.poll())); // this step may overwrite its list of moves or its logits
            }
            if (outstanding.isEmpty()) {
                underWay = Optional.of(new InFlightStep(plan.step(), time.nanos(), limitNanos));
            }
            int slot = clock.begin(stream);
            poisonNow(plan, batches);
            pools.beginStep();
            plan.swaps().forEach(pools::swap);
            hostTokens.ifPresent(tokens -> plan.pause().forEach(tokens.queues()::pause));
            StepLauncher.Report report =
                    new StepLauncher.Report(chosen.of(slot).address(), trace.stamps(slot), chosen.logprobs(slot));
            Launched launched = launcher.launch(plan, batches, kind, report);
            outstanding.add(new Outstanding(plan, launched, slot, limitNanos));
            clock.end(stream, slot);
            allowsNext = isShort
                    && launched.allowsAsyncScheduling()
                    && hostTokens.stream().noneMatch(tokens -> tokens.queues().needsLogits());
        } catch (CudaException e) {
            throw new ExecutorException(e.getMessage(), e);
        }
    }

    @Override
    public boolean allowsAsyncScheduling() {
        return allowsNext;
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

    private long limitNanos(List<List<Chunk>> batches, int slots) {
        int rows = slots;
        boolean waits = false;
        for (List<Chunk> chunks : batches) {
            for (Chunk chunk : chunks) {
                rows += chunk.rows();
                waits |= chunk.site() == AttentionSite.CPU_FROM_HOST;
            }
        }
        return deadline.nanos(rows, waits, options.watchdogNanos());
    }

    /**
     * Describes a step that takes suspiciously long. The engine thread fails it at its deadline, unless that thread
     * hangs in the driver itself.
     */
    @Override
    public Optional<String> trouble() {
        return underWay.flatMap(step -> {
            long taken = time.nanos() - step.began();
            return taken < StepDeadline.suspiciousNanos(step.limitNanos())
                    ? Optional.empty()
                    : Optional.of(String.format(
                            Locale.ROOT,
                            "step %d has kept the GPU for %.1f s; after %.1f s the GPU counts as hung",
                            step.step(),
                            taken / 1e9,
                            step.limitNanos() / 1e9));
        });
    }

    private StepResult complete(Outstanding step) {
        try {
            Launched launched = step.launched();
            float millis = clock.await(
                    step.clock(),
                    step.plan().step(),
                    step.limitNanos(),
                    launched.passes() > 0 ? hostTokens.orElseThrow()::watch : () -> {});
            underWay = Optional.ofNullable(outstanding.peek())
                    .map(next -> new InFlightStep(next.plan().step(), time.nanos(), next.limitNanos()));
            trace.record(step.clock(), step.plan().step(), launched, millis);
            pools.verify();
            List<StepResult.Sampled> sampled =
                    new ArrayList<>(launched.sampled().size() + launched.slots());
            List<Long> paused = new ArrayList<>();
            List<StepResult.Lost> lost = new ArrayList<>();
            hostTokens.ifPresent(tokens -> {
                MemorySegment returned =
                        chosen.of(step.clock()).asSlice(4L * (launched.firstSlotSample() + launched.slots()));
                tokens.finishLastLayer(
                        returned,
                        launched.slots(),
                        launched.firstSlotSample(),
                        (sequence, sampler, draw, row) -> chosen.take(
                                sequence, sampler, draw, step.clock(), row, AttentionSite.CPU_FROM_HOST, sampled, lost),
                        paused);
                tokens.collectReleased(paused, lost);
                tokens.endSameLayer();
            });
            for (int i = 0; i < launched.sampled().size(); i++) {
                Chunk chunk = launched.sampled().get(i);
                if (lost.stream().noneMatch(token -> token.sequence() == chunk.sequence())) {
                    chosen.take(
                            chunk.sequence(),
                            chunk.sampler().orElseThrow(),
                            launched.draws().get(i),
                            step.clock(),
                            i,
                            chunk.site(),
                            sampled,
                            lost);
                }
            }
            StepTimes times = hostTokens.map(HostTokenTracker::times).orElse(StepTimes.NONE);
            return new StepResult(step.plan().step(), sampled, List.of(), paused, lost, times);
        } catch (CudaException e) {
            throw new ExecutorException(e.getMessage(), e);
        }
    }

    /** For tests: sets how long steps may take. */
    void deadline(StepDeadline limit) {
        deadline = limit;
    }

    /** For tests: makes steps hang until the host aborts its tokens or the transfer kernel times out. */
    void hang() {
        device.makeCurrent();
        forward.hang(stream);
    }

    /** For tests: fills both pools with NaN; they hold no sequence. */
    void poisonPools() {
        device.makeCurrent();
        stream.fill(pools.gpu(), -1);
        stream.synchronise();
        pools.poisonHost();
    }

    /** For tests: turns KV of the next row that decodes on the GPU into NaN before its step. */
    void poisonNextRow() {
        poisons = true;
    }

    /** For tests: how many rows have been poisoned. */
    int poisonedRows() {
        return poisoned;
    }

    /**
     * Poisons only in steps without swaps: a block that a swap writes belongs to another sequence until the swap has
     * run.
     */
    private void poisonNow(StepPlan plan, List<List<Chunk>> batches) {
        for (List<Chunk> chunks : poisons && plan.swaps().isEmpty() ? batches : List.<List<Chunk>>of()) {
            for (Chunk chunk : chunks) {
                if (poisons && chunk.site() == AttentionSite.GPU_FROM_GPU && chunk.rows() == 1 && chunk.start() > 0) {
                    pools.poison(stream, chunk.blocks()[0]);
                    poisons = false;
                    poisoned++;
                }
            }
        }
    }

    /** For tests: offloads prefills by kernels, without the copy engine. */
    void offloadPrefillByKernels() {
        pools.prefillOffload().useKernels();
    }

    /** For tests: address of a host block. */
    long hostBlock(int layer, int block) {
        return pools.hostBlock(layer, block);
    }

    /** For tests: ends the workers as if they had died. */
    void endWorkers() {
        hostTokens.ifPresent(HostTokenTracker::close);
    }

    /** The logits of a row sampled in the last step. */
    float[] logits(int index) {
        return chosen.logits(index);
    }

    /** Ends within some seconds even when the GPU hangs; then it frees nothing, because freeing waits for the GPU. */
    @Override
    public void close() {
        device.makeCurrent();
        hostTokens.ifPresent(HostTokenTracker::abort);
        if (endSteps()) {
            closeOwned();
        } else {
            hostTokens.ifPresent(HostTokenTracker::close);
            System.getLogger(CudaExecutor.class.getName())
                    .log(
                            System.Logger.Level.WARNING,
                            "the GPU does not answer, so its memory is not freed; the end of the process frees it. If "
                                    + "it outlives the process, reset the GPU");
        }
        checkpoint.close();
    }

    /** Waits for the running step, whose memory must not be freed; returns whether it ended. */
    private boolean endSteps() {
        try {
            return stream.runsOut(CLOSE_NANOS);
        } catch (CudaException e) {
            notFreed(e);
            return true;
        }
    }

    /** Logs memory that a faulty GPU cannot free; the end of the process frees it. */
    private static void notFreed(RuntimeException e) {
        System.getLogger(CudaExecutor.class.getName()).log(System.Logger.Level.DEBUG, "not freed: {0}", e.getMessage());
    }

    /** Frees everything, unless a worker may still use the KV pools. The workers are the youngest resource. */
    private void closeOwned() {
        if (owned.youngest().orElse(null) instanceof HostTokenTracker workers) {
            workers.close();
            if (!workers.workers().ended()) {
                System.getLogger(CudaExecutor.class.getName())
                        .log(
                                System.Logger.Level.WARNING,
                                "an attention worker is stalled and may still use the KV pools, so nothing is freed; "
                                        + "the end of the process frees it");
                return;
            }
        }
        try {
            owned.closeAll();
        } catch (RuntimeException e) {
            notFreed(e);
        }
    }
}
