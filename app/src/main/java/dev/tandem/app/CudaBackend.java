package dev.tandem.app;

import dev.tandem.cpu.probe.MachineProbe;
import dev.tandem.cpu.topology.NumaInterleaving;
import dev.tandem.cuda.CudaExecutor;
import dev.tandem.cuda.CudaOptions;
import dev.tandem.cuda.device.CudaLibraries;
import dev.tandem.cuda.device.Device;
import dev.tandem.cuda.ffi.CudaException;
import dev.tandem.cuda.kernels.KernelCatalogue;
import dev.tandem.cuda.kernels.KernelCompiler;
import dev.tandem.cuda.kernels.ModelShape;
import dev.tandem.cuda.step.GpuClock;
import dev.tandem.engine.clock.Clock;
import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.engine.executor.ExecutorLimits;
import dev.tandem.engine.observe.Timeline;
import dev.tandem.engine.strategy.Deviation;
import dev.tandem.fetch.IndexLocation;
import dev.tandem.fetch.Progress;
import dev.tandem.fetch.WheelSource;
import dev.tandem.model.Checkpoint;
import dev.tandem.model.config.DataType;
import dev.tandem.model.config.ModelConfig;
import dev.tandem.model.gguf.GgufWeights;
import dev.tandem.model.weights.ElementType;
import dev.tandem.model.weights.NamedWeights;
import java.nio.file.Path;
import java.util.Locale;
import java.util.Optional;
import java.util.OptionalInt;

/** Makes the CUDA executor from the options: finds libraries, compiles kernels, and reports what it chose. */
final class CudaBackend {
    private static final long MAX_HOST_KV = 32L << 30;

    private CudaBackend() {}

    /** Starts the executor, which closes the checkpoint; when this throws, the caller closes it. */
    static Backend start(ModelOptions options, Checkpoint checkpoint, Timeline timeline, StartLog log) {
        ModelShape.require(checkpoint.spec()); // before libraries are loaded and kernels compiled
        ModelConfig config = checkpoint.config();
        if (options.strategy.chosen().offloads()) {
            hostObstacle(options, config).ifPresent(why -> {
                throw new ConfigurationException(why + "; use --strategy gpu-only");
            });
        }
        boolean quantised = checkpoint.weights() instanceof NamedWeights named
                && named.stored() instanceof GgufWeights gguf
                && gguf.matrixTypes().stream().anyMatch(ElementType::quantised);
        CudaLibraries libraries = libraries(options.gpu.libraries, log.bytes());
        KernelCompiler compiler =
                new KernelCompiler(libraries::nvrtc, cache().resolve("kernels").resolve("cuda" + libraries.release()));
        CudaExecutor executor = new CudaExecutor(
                log.watched(checkpoint),
                options(options, config),
                libraries,
                compiler,
                Clock.system(),
                timeline,
                log.items());
        ExecutorLimits limits = executor.limits();
        ModelShape shape = new ModelShape(config, type(options, config));
        report(executor, shape, options.dtype, log);
        libraries.found().forEach(found -> log.detail("library: " + found));
        log.detail("kernels: "
                + (compiler.compiled() == 0
                        ? "all from the cache"
                        : compiler.compiled() + " compiled for this GPU and model")
                + "; decode steps "
                + (options.gpu.eager ? "launched kernel by kernel (--enforce-eager)" : "replayed from CUDA graphs"));
        log.detail(executor.gemms() + "; piggybacked prefill in steps of up to "
                + limits.piggybacking().maxRows() + " tokens");
        reportLosses(shape, quantised, executor.device(), log);
        int context = limits.fittingContext(options.contextTokens(config));
        StartSummary.gpuMemory(executor.ledger().parts(), log);
        StartSummary.memory(limits, log);
        StartSummary.tiers(options.strategy.chosen(), attentionThreads(options), executor.hostAttention(), limits, log);
        NumaInterleaving.system().report().ifPresent(log::detail);
        if (options.gpu.kvChecksums && limits.hostBlocks() == 0) {
            log.notice("--kv-checksums has no effect: no KV moves between GPU and host without a host pool. Give one"
                    + " with --host-kv, or leave --kv-checksums out.");
        }
        return new Backend(
                executor,
                checkpoint.name(),
                executor.weightBytes(),
                context,
                attentionThreads(options),
                profileName(Gpu.of(executor.device()), checkpoint, options),
                name -> executor.profile(name, log.items()),
                Optional.of(() -> {
                    GpuClock.Totals time = executor.gpuTime();
                    return new double[] {time.busy(), time.idle()};
                }));
    }

    /**
     * The GPU of the options.
     *
     * @param multiprocessors that the options allow
     * @param memoryBytes in all
     */
    record Gpu(String name, int multiprocessors, long memoryBytes) {
        /** The GPU of the options; empty when it cannot be used. */
        static Optional<Gpu> find(GpuOptions options) {
            return CudaLibraries.driver().flatMap(driver -> {
                try (Device device = new Device(driver, options.number(), options.multiprocessorLimit)) {
                    return Optional.of(of(device));
                } catch (CudaException none) {
                    return Optional.empty();
                }
            });
        }

        private static Gpu of(Device device) {
            return new Gpu(
                    device.name(), device.multiprocessors(), device.memory().total());
        }
    }

    /**
     * The machine, model and options for which a profile is valid. gpu-only has the name of the strategies with a host
     * tier, because a profile is of both sides.
     */
    static String profileName(Gpu gpu, Checkpoint checkpoint, ModelOptions options) {
        return gpu.name() + "; " + checkpoint.name() + "; "
                + type(options, checkpoint.config()).flag()
                + "; CUDA executor, " + gpu.multiprocessors() + " multiprocessors"
                + (options.gpu.bandwidthLimit > 0 ? " at " + options.gpu.bandwidthLimit + " GB/s, " : ", ")
                + options.strategy.attentionThreads.orElse(defaultAttentionThreads()) + " threads on "
                + MachineProbe.machine();
    }

    /** The reason why the CPU cannot compute attention for this model with these options; empty when it can. */
    static Optional<String> hostObstacle(ModelOptions options, ModelConfig config) {
        int max = CudaExecutor.maxHostTokens();
        return options.maxNumSeqs() > max
                ? Optional.of("--max-num-seqs " + options.maxNumSeqs() + " is more than the " + max
                        + " tokens that the CPU computes attention for at a time; lower it")
                : CudaExecutor.hostObstacle(config);
    }

    private static void report(CudaExecutor executor, ModelShape shape, String dtype, StartLog log) {
        Device device = executor.device();
        log.row(
                "device",
                String.format(
                        Locale.ROOT,
                        "%s, %d SMs, compute capability %d.%d, driver for CUDA %d.%d",
                        device.name(),
                        device.multiprocessors(),
                        device.capability() / 10,
                        device.capability() % 10,
                        device.driverVersion() / 1000,
                        device.driverVersion() % 1000 / 10));
        executor.limitedBandwidth()
                .ifPresent(bytes -> log.row(
                        "bandwidth",
                        String.format(Locale.ROOT, "%.0f GB/s read beside a load on the other SMs", bytes / 1e3)));
        StartSummary.weights("computed in " + shape.type().flag(), executor.weightBytes(), dtype, log);
    }

    /** Default of --host-kv in bytes: a quarter of the machine's memory, at most 32 GiB with a host tier. */
    private static long defaultHostKv(ModelOptions options) {
        return attentionThreads(options) == 0 ? CpuBackend.defaultKv() : defaultHostTier();
    }

    /** Default of --host-kv in bytes where the CPU computes attention. */
    static long defaultHostTier() {
        return Math.min(MAX_HOST_KV, CpuBackend.memory() / 4);
    }

    private static void reportLosses(ModelShape shape, boolean quantised, Device device, StartLog log) {
        ModelConfig config = shape.config();
        if (quantised || config.fileType() == DataType.FLOAT32) {
            log.notice("The GPU keeps the float32 or quantised weights of the file in "
                    + shape.type().flag()
                    + ", which rounds them and may take more memory. Use --device cpu for the file's own precision.");
        }
        if (shape.headWidth() != config.headDim()) {
            log.notice("KV takes " + shape.headWidth() + "/" + config.headDim()
                    + " of the usual memory: the kernels need heads of " + shape.headWidth() + " values.");
        }
        KernelCatalogue.limitations(device.capability(), device.slice())
                .forEach(limitation -> log.notice("Limitation of this GPU: " + limitation + "."));
    }

    static DataType type(ModelOptions options, ModelConfig config) {
        DataType file = config.fileType() == DataType.FLOAT32 ? DataType.BFLOAT16 : config.fileType();
        return options.dtype.equals("auto") ? file : DataType.of(options.dtype);
    }

    private static CudaOptions options(ModelOptions options, ModelConfig config) {
        ModelShape shape = new ModelShape(config, type(options, config));
        return CudaOptions.builder(shape.type(), options.budget().maxBatchTokens(), options.maxNumSeqs())
                .device(options.gpu.number(), options.gpu.multiprocessorLimit)
                .bandwidthLimit(1e3 * options.gpu.bandwidthLimit)
                .memoryUtilization(options.memory.gpuUtilization)
                .gpuBlocks(gpuBlocks(options.memory, shape).map(OptionalInt::of).orElse(OptionalInt.empty()))
                .hostBytes(options.memory.hostKv.map(ByteSize::bytes).orElse(defaultHostKv(options)))
                .graphs(!options.gpu.eager)
                .attentionThreads(attentionThreads(options), options.advanced.pinThreads, (long)
                        (options.strategy.hostWatchdog * 1e9))
                .slots(slots(options))
                .kvChecksums(options.gpu.kvChecksums)
                .build();
    }

    /**
     * The KV blocks of the GPU that the options set; empty for as many as fit. The executor, which knows the GPU's
     * memory, refuses what does not fit.
     */
    static Optional<Integer> gpuBlocks(MemoryOptions memory, ModelShape shape) {
        return memory.gpuBlocks.or(() -> memory.kvCacheMemory.map(size -> blocks(size, shape.blockBytes())));
    }

    private static int blocks(ByteSize size, long blockBytes) {
        long blocks = size.bytes() / blockBytes;
        if (blocks < 1) {
            throw new ConfigurationException(
                    "--kv-cache-memory " + size + " holds no KV block of " + new ByteSize(blockBytes) + "; raise it");
        }
        return (int) Math.min(Integer.MAX_VALUE / ModelShape.BLOCK_TOKENS, blocks);
    }

    /** Slots for in-flight tokens. In a cohort each of them needs one at the same layer. */
    static int slots(ModelOptions options) {
        boolean cohort = options.strategy.chosen().offloads()
                && !options.strategy.deviations().has(Deviation.SPREAD_HOST_TOKENS);
        return cohort
                ? Math.clamp(options.maxNumSeqs(), CudaExecutor.usualSlots(), CudaExecutor.maxSlots())
                : CudaExecutor.usualSlots();
    }

    /** All cores except two, which the engine and the server use; 0 when the host only stores preempted KV. */
    private static int attentionThreads(ModelOptions options) {
        return !options.strategy.chosen().offloads()
                ? 0
                : options.strategy.attentionThreads.orElse(defaultAttentionThreads());
    }

    static int defaultAttentionThreads() {
        return Math.max(1, Runtime.getRuntime().availableProcessors() - 2);
    }

    static Path cache() {
        return DefaultModel.cache(System.getenv(), Path.of(System.getProperty("user.home")));
    }

    /** @param progress of the download where they are not on this machine */
    static CudaLibraries libraries(String flag, Progress progress) {
        Path home = Path.of(System.getProperty("user.home"));
        return new CudaLibraries(
                CudaLibraries.Choice.of(flag),
                System.getenv(),
                () -> new WheelSource(() -> IndexLocation.find(System.getenv(), home), cache(), progress),
                CudaLibraries.driverVersion());
    }
}
