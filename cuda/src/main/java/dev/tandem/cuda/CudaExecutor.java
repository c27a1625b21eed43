package dev.tandem.cuda;

import dev.tandem.cpu.decode.DecodeWarmUp;
import dev.tandem.cpu.decode.PagedDecodeAttention;
import dev.tandem.cpu.topology.CpuTopology;
import dev.tandem.cuda.device.CudaLibraries;
import dev.tandem.cuda.device.Device;
import dev.tandem.cuda.device.GpuMemoryLedger;
import dev.tandem.cuda.device.Stream;
import dev.tandem.cuda.ffi.CudaException;
import dev.tandem.cuda.forward.AttentionLauncher;
import dev.tandem.cuda.forward.CudaForward;
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
import dev.tandem.cuda.sampling.Bitmasks;
import dev.tandem.cuda.sampling.GpuSampler;
import dev.tandem.cuda.sampling.PromptScores;
import dev.tandem.cuda.sampling.SampleReport;
import dev.tandem.cuda.step.GpuClock;
import dev.tandem.cuda.step.GraphCache;
import dev.tandem.cuda.step.OutstandingSteps;
import dev.tandem.cuda.step.StepBuffers;
import dev.tandem.cuda.step.StepDeadline;
import dev.tandem.cuda.step.StepLauncher;
import dev.tandem.cuda.step.StepLayout;
import dev.tandem.cuda.step.StepTrace;
import dev.tandem.cuda.tune.CudaTimings;
import dev.tandem.cuda.tune.GemmAutotuner;
import dev.tandem.cuda.tune.MemoryLoad;
import dev.tandem.cuda.tune.StepTimer;
import dev.tandem.cuda.weights.CudaWeights;
import dev.tandem.engine.clock.Clock;
import dev.tandem.engine.cost.Profile;
import dev.tandem.engine.executor.Executor;
import dev.tandem.engine.executor.ExecutorLimits;
import dev.tandem.engine.executor.PiggybackedPrefill;
import dev.tandem.engine.observe.Timeline;
import dev.tandem.engine.step.StepPlan;
import dev.tandem.engine.step.StepResult;
import dev.tandem.fetch.Progress;
import dev.tandem.model.Checkpoint;
import dev.tandem.model.config.ModelConfig;
import java.util.Optional;
import java.util.OptionalDouble;
import java.util.Set;
import java.util.function.UnaryOperator;
import org.jspecify.annotations.Nullable;

/**
 * Runs step plans on an NVIDIA GPU. Steps of few rows are replayed from CUDA graphs, one per bucket of row counts.
 * Large steps, and those of two sub-batches, are enqueued kernel by kernel while the GPU works on them. The GPU samples
 * the tokens. The engine samples on the host where a request combines log-probabilities with penalties, biases or a
 * grammar, or has one of these three on an in-flight token.
 *
 * <p>With attention threads, sequences on the host tier decode too. In async overlap, the last rows of a step are
 * slots: in-flight tokens leave the batch after each QKV projection and rejoin it in a slot once
 * {@link HostAttentionWorkers} have returned their attention ({@link HostLinkMemory}). The GPU waits for none of them
 * but those that are to finish within the step, and the engine thread does nothing per layer. With same-layer tokens
 * (simple offload, NEO's sub-batches) the GPU waits in each layer until the CPU has attended; its own attention, or the
 * other sub-batch, hides that wait.
 *
 * <p>Owned by: engine thread. Construction may happen on another thread.
 */
public final class CudaExecutor implements Executor {
    private final Checkpoint checkpoint;
    private final ModelShape shape;
    private final MemoryPlan plan;
    private final Owned owned = new Owned();
    private final Device device;
    private final CudaWeights weights;
    private final KvPools pools;
    private final CudaTimings timings;
    private final GpuClock clock;
    private final SampleReport report;
    private final ExecutorLimits limits;
    private final OutstandingSteps steps;
    private final CudaFaults faults;
    private final String gemms;
    /** Empty without attention threads. */
    private final Optional<HostTokenTracker> hostTokens;

    private final GpuMemoryLedger ledger;
    private final OptionalDouble limitedBandwidth;
    private @Nullable Thread user;

    /**
     * Takes ownership of the checkpoint; when it fails, the checkpoint stays the caller's.
     *
     * @param progress of compiling kernels and choosing GEMMs
     * @throws CudaException when the machine, its libraries or its memory do not suffice
     */
    public CudaExecutor(
            Checkpoint checkpoint,
            CudaOptions options,
            CudaLibraries libraries,
            KernelCompiler compiler,
            Clock time,
            Timeline timeline,
            Progress progress) {
        this(checkpoint, options, libraries, compiler, time, timeline, progress, UnaryOperator.identity());
    }

    /** @param attention replaces the fastest implementation of attention, so that tests can make it fail */
    CudaExecutor(
            Checkpoint checkpoint,
            CudaOptions options,
            CudaLibraries libraries,
            KernelCompiler compiler,
            Clock time,
            Timeline timeline,
            Progress progress,
            UnaryOperator<PagedDecodeAttention> attention) {
        ModelShape.require(checkpoint.spec());
        this.checkpoint = checkpoint;
        this.shape = ModelShape.of(checkpoint.spec(), options.type());
        this.plan = MemoryPlan.of(options);
        try {
            boolean hasHostTier = options.attentionThreads() > 0;
            Hardware hardware = Hardware.open(options, shape, libraries, compiler, time, progress, owned);
            device = hardware.device();
            Stream stream = hardware.stream();
            limitedBandwidth =
                    hardware.load().stream().mapToDouble(MemoryLoad::bandwidth).findFirst();
            Kernels kernels = hardware.kernels();

            Optional<HostAttentionWorkers.Attention> fastest =
                    hasHostTier ? Optional.of(HostAttentionWorkers.Attention.fastest(shape)) : Optional.empty();
            fastest.ifPresent(found -> DecodeWarmUp.start(found.all())); // beside the GPU's start, which takes longer

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
            Bitmasks masks = owned.own(new Bitmasks(device, shape, plan.maxSequences()));
            PromptScores scores = owned.own(new PromptScores(device, shape, plan.maxRows()));
            GemmAutotuner autotuner = new GemmAutotuner(layerGemms, hardware.choices(), progress);
            autotuner.algorithms(
                    stream,
                    buffers.activations(0),
                    plan.graphRowsWithSlots(),
                    plan.sampledRows(),
                    plan.maxRows(),
                    plan.slots());

            // the KV pools take the remaining memory
            long used = hardware.used();
            int gpuBlocks = options.gpuBlocks().orElseGet(() -> {
                Device.Memory memory = device.memory();
                return plan.kvBlocks(shape, options.memoryUtilization(), used, memory.free(), memory.total());
            });
            pools = owned.own(new KvPools(
                    device,
                    kernels,
                    shape,
                    shape.layout(plan.maxRows()),
                    gpuBlocks,
                    plan.offloadedBlocks(shape),
                    plan.hostBytes(),
                    plan.maxSequences(),
                    options.kvChecksums()));
            stream.fill(pools.gpu(), 0);
            long longestStep = StepDeadline.USUAL.nanos(plan.maxRows() + plan.slots(), false, 0);
            Optional<HostLinkMemory> linkMemory = hasHostTier
                    ? Optional.of(owned.own(
                            new HostLinkMemory(device, stream, shape, 2 * options.watchdogNanos(), longestStep)))
                    : Optional.empty();
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
            StepBuffers inputs =
                    owned.own(StepBuffers.of(device, shape, plan.stepSizes(gpuBlocks, shape), options.graphs()));
            StepTrace trace = owned.own(
                    new StepTrace(device, timeline, time, shape.config().layers()));
            report = owned.own(new SampleReport(
                    device,
                    stream,
                    buffers.logits().values(),
                    shape,
                    Math.max(plan.graphRows(), plan.maxSequences()) + 2 * plan.slots(),
                    GpuClock.RING));

            // tuning
            long beforeGraphs = device.memory().free();
            StepLayout layout = new StepLayout(partition);
            StepTimer untunedTimer = owned.own(new StepTimer(device, stream, untuned, layout, pools.layout(), shape));
            untunedTimer.runBuckets(inputs.graph(), plan.decodeRows());
            GemmAutotuner.Rows rows = new GemmAutotuner.Rows(plan.maxRows(), plan.maxSequences(), gpuBlocks);
            CudaForward forward =
                    untuned.with(autotuner.plan(untunedTimer, untuned, inputs.graph(), rows, kernels.decodeAttention));
            StepTimer timer = untunedTimer.of(forward);
            PiggybackedPrefill piggybacking =
                    autotuner.piggybacking(timer, inputs.graph(), plan.graphRows(), gpuBlocks);
            autotuner.keep();
            gemms = autotuner.text(forward.plan());
            limits = limits(options, piggybacking);

            // graphs
            GraphCache graphs = owned.own(new GraphCache(stream, forward, inputs.graph(), pools, shape));
            if (options.graphs()) {
                graphs.capture(plan.decodeRows());
            }
            ledger = new GpuMemoryLedger(
                    weights.bytes(),
                    buffers.bytes() + inputs.bytes() + pools.listBytes(),
                    layerGemms.bytes()
                            + hardware.library().workspaceBytes()
                            + Math.max(0, beforeGraphs - device.memory().free()),
                    gpuBlocks * shape.blockBytes(),
                    device.memory().free(),
                    device.memory().total());
            hostTokens = linkMemory
                    .map(HostLinkMemory::queues)
                    .map(queues -> owned.own(new HostTokenTracker(
                            queues,
                            workers(
                                    queues,
                                    options,
                                    time,
                                    timeline,
                                    fastest.orElseThrow().replaced(attention)))));
            timings = new CudaTimings(device, stream, kernels, pools, shape, timer, inputs, hostTokens, time);
            StepLauncher launcher = new StepLauncher(
                    stream,
                    new GpuSampler(kernels, shape, buffers.logits(), hostMemory),
                    masks,
                    scores,
                    pools,
                    layout,
                    graphs,
                    inputs,
                    hostTokens,
                    plan.slots(),
                    shape.config().layers());
            steps = new OutstandingSteps(
                    stream,
                    launcher,
                    pools,
                    clock,
                    trace,
                    report,
                    scores,
                    hostTokens,
                    plan.slots(),
                    time,
                    options.watchdogNanos());
            faults = new CudaFaults(device, stream, forward, pools, steps, hostTokens);
        } catch (RuntimeException | Error e) {
            owned.closeAll();
            throw e;
        }
    }

    private ExecutorLimits limits(CudaOptions options, PiggybackedPrefill piggybacking) {
        boolean hasHostTier = options.attentionThreads() > 0;
        return ExecutorLimits.builder()
                .vocabulary(shape.config().vocabulary())
                .contextTokens(shape.config().contextTokens())
                .blockTokens(ModelShape.BLOCK_TOKENS)
                .hostBlockTokens(HostFormat.BLOCK_TOKENS)
                .gpuBlocks(pools.gpuBlocks())
                .stagesPrefills(hasHostTier)
                .hostBlocks(pools.hostBlocks())
                .maxBatchTokens(options.maxBatchTokens())
                .layers(shape.config().layers())
                .kvBytesPerToken(shape.kvBytesPerToken())
                .overlaps(hasHostTier)
                .inFlight(plan.slots(), hasHostTier ? HostAttentionQueues.MAX : 0, hasHostTier)
                .piggybacking(piggybacking)
                .windows(shape.config().windows())
                .maxSharedBlocks(KvPools.sharedPages(pools.pages()))
                .build();
    }

    private HostAttentionWorkers workers(
            HostAttentionQueues queues,
            CudaOptions options,
            Clock time,
            Timeline timeline,
            HostAttentionWorkers.Attention attention) {
        return new HostAttentionWorkers(
                queues,
                attention,
                pools::hostBlock,
                pools.layout(),
                shape.config()::window,
                time,
                timeline,
                options.attentionThreads(),
                new HostAttentionWorkers.Cores(
                        CpuTopology.find(), options.pinThreads(), HostAttentionWorkers.CORES_LEFT),
                options.watchdogNanos());
    }

    /** Which methods compute the GEMMs of decode steps, and when these were measured. */
    public String gemms() {
        return gemms;
    }

    @Override
    public ExecutorLimits limits() {
        return limits;
    }

    /** Max in-flight tokens that rejoin the batch at a layer, where {@link CudaOptions#slots} allows it. */
    public static int maxSlots() {
        return HostLinkMemory.MAX_SLOTS;
    }

    /** Slots that suffice for in-flight tokens that are spread over the layers. */
    public static int usualSlots() {
        return HostLinkMemory.USUAL_SLOTS;
    }

    /** Max host tokens at a time. */
    public static int maxHostTokens() {
        return HostAttentionQueues.MAX;
    }

    /** Why the CPU's attention cannot serve a model; empty when it can. */
    public static Optional<String> hostObstacle(ModelConfig config) {
        return HostFormat.obstacle(config);
    }

    /** How the GPU and host memory is used. */
    public GpuMemoryLedger ledger() {
        return ledger;
    }

    public Device device() {
        return device;
    }

    /** Bytes per microsecond of GPU memory that were measured beside the load; empty without a limit. */
    public OptionalDouble limitedBandwidth() {
        return limitedBandwidth;
    }

    /** The attention threads, for the log; empty without any. */
    public Optional<String> hostAttention() {
        return hostTokens.map(HostTokenTracker::workers).map(HostAttentionWorkers::text);
    }

    /** Bytes of weights that a decoding step reads. */
    public long weightBytes() {
        return weights.bytesRead();
    }

    /** GPU time since the start. */
    public GpuClock.Totals gpuTime() {
        return clock.totals();
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
    public Profile profile(String name, Progress progress) {
        return timings.profile(name, plan.decodeRows(), plan.maxRows(), progress);
    }

    @Override
    public void submit(StepPlan plan) {
        prepare(plan);
        steps.submit(plan);
    }

    @Override
    public void submitLayers(StepPlan plan) {
        prepare(plan);
        steps.submitLayers(plan);
    }

    @Override
    public void sample(Set<Long> skipped) {
        steps.sample(skipped);
    }

    @Override
    public boolean drawsByBitmask() {
        return true;
    }

    private void prepare(StepPlan plan) {
        if (user != Thread.currentThread()) {
            user = Thread.currentThread();
            device.makeCurrent();
            hostTokens.ifPresent(tokens -> tokens.workers().pinEngine());
        }
        faults.beforeStep(plan);
    }

    @Override
    public boolean allowsAsyncScheduling() {
        return steps.allowsAsyncScheduling();
    }

    @Override
    public StepResult poll() {
        return steps.poll();
    }

    @Override
    public Optional<String> trouble() {
        return steps.trouble();
    }

    /** For tests: makes parts of it fail. */
    CudaFaults faults() {
        return faults;
    }

    /** For tests: address of a host block. */
    long hostBlock(int layer, int block) {
        return pools.hostBlock(layer, block);
    }

    /** For tests: the logits of a row sampled in the last step. */
    float[] logits(int index) {
        return report.logits(index);
    }

    /** Ends within some seconds even when the GPU hangs; then it frees nothing, because freeing waits for the GPU. */
    @Override
    public void close() {
        device.makeCurrent();
        hostTokens.ifPresent(HostTokenTracker::abort);
        if (steps.runOut()) {
            owned.closeAll();
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
}
