package dev.tandem.app;

import dev.tandem.bench.Profiler;
import dev.tandem.cpu.CpuExecutor;
import dev.tandem.cpu.CpuOptions;
import dev.tandem.cpu.attention.KvStore;
import dev.tandem.cpu.simd.ActivationPrecision;
import dev.tandem.cpu.simd.Lanes;
import dev.tandem.cpu.topology.CpuTopology;
import dev.tandem.cpu.topology.NumaInterleaving;
import dev.tandem.engine.clock.Clock;
import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.model.Checkpoint;
import dev.tandem.model.config.DataType;
import dev.tandem.model.config.ModelConfig;
import dev.tandem.model.gguf.GgufWeights;
import dev.tandem.model.weights.ElementType;
import dev.tandem.model.weights.NamedWeights;
import java.lang.management.ManagementFactory;
import java.util.Locale;
import java.util.Optional;

/** Makes the CPU executor from the options, chooses defaults for options that are not set, and reports them. */
final class CpuBackend {
    /** Max bytes of a host tier whose KV the CPU does not attend to, and of the CPU executor's pools, by default. */
    static final long MAX_DEFAULT_KV = 4L << 30;

    private final ModelOptions options;
    private final CpuTopology topology;
    private final CpuOptions cpu;
    private final long blockBytes;

    private CpuBackend(ModelOptions options, ModelConfig config) {
        this.options = options;
        DataType type = options.dtype.equals("auto") ? config.fileType() : DataType.of(options.dtype);
        this.blockBytes = config.kvBytesPerToken(type) * KvStore.BLOCK_TOKENS;
        long budget = options.memory.kvCacheMemory.map(ByteSize::bytes).orElse(defaultKv());
        int gpuBlocks = options.memory.gpuBlocks.orElse(blocks(budget));
        int hostBlocks = blocks(options.memory.hostKv.map(ByteSize::bytes).orElse(budget));
        if (gpuBlocks == 0) {
            throw new ConfigurationException("--kv-cache-memory " + new ByteSize(budget) + " holds no KV block of "
                    + new ByteSize(blockBytes) + "; raise it or set --num-gpu-blocks-override");
        }
        checkMemory(gpuBlocks, hostBlocks);
        int threads = options.advanced.threads.orElse(Runtime.getRuntime().availableProcessors());
        this.topology = CpuTopology.find();
        this.cpu = new CpuOptions(
                threads,
                options.strategy.attentionThreads.orElse(threads),
                options.advanced.pinThreads && topology.canPin(threads),
                type,
                options.advanced.cpuActivations,
                type,
                gpuBlocks,
                hostBlocks,
                options.budget().maxBatchTokens());
    }

    private void checkMemory(int gpuBlocks, int hostBlocks) {
        ByteSize pools = new ByteSize((gpuBlocks + (long) hostBlocks) * blockBytes);
        ByteSize machine = new ByteSize(memory());
        if (pools.bytes() > machine.bytes()) {
            throw new ConfigurationException("the KV pools of " + gpuBlocks + " and " + hostBlocks + " blocks need "
                    + pools
                    + " and this machine has " + machine
                    + "; lower --kv-cache-memory (or --num-gpu-blocks-override) and --host-kv");
        }
    }

    private int blocks(long bytes) {
        return (int) Math.min(Integer.MAX_VALUE / KvStore.BLOCK_TOKENS, bytes / blockBytes);
    }

    /** A quarter of the machine's memory, at most 4 GiB. */
    static long defaultKv() {
        return Math.min(MAX_DEFAULT_KV, memory() / 4);
    }

    /** Bytes of memory of the machine, or of this process's limit. */
    static long memory() {
        return ManagementFactory.getOperatingSystemMXBean() instanceof com.sun.management.OperatingSystemMXBean system
                ? system.getTotalMemorySize()
                : Runtime.getRuntime().maxMemory();
    }

    /** Starts the executor, which closes the checkpoint; when this throws, the caller closes it. */
    static Backend start(ModelOptions options, Checkpoint checkpoint, StartLog log) {
        CpuBackend chosen = new CpuBackend(options, checkpoint.config());
        chosen.report(log);
        if (options.gpu.kvChecksums) {
            log.notice(
                    "--kv-checksums has no effect: the CPU executor moves no KV between GPU and host. Leave it out.");
        }
        boolean blocks = keepsBlocks(checkpoint);
        boolean int8 = chosen.cpu.activations() == ActivationPrecision.INT8;
        if (int8 && !blocks) {
            throw new ConfigurationException("--cpu-activations int8 needs a GGUF file with quantised blocks, and "
                    + checkpoint.name() + " has none; use --cpu-activations exact, or a file such as Q4_K_M");
        }
        CpuExecutor executor = new CpuExecutor(log.watched(checkpoint), chosen.cpu);
        String kept = blocks ? "GGUF blocks as they are, KV in " : "computed in ";
        String activations = int8 ? ", int8 activations" : "";
        StartSummary.weights(
                kept + chosen.cpu.weightType().flag() + activations, executor.weightBytes(), options.dtype, log);
        StartSummary.memory(executor.limits(), log);
        StartSummary.tiers(
                options.strategy.chosen(), chosen.cpu.attentionThreads(), Optional.empty(), executor.limits(), log);
        NumaInterleaving.system().report().ifPresent(log::detail);
        String profile = Profiles.name(
                checkpoint.name(),
                chosen.cpu.weightType().flag() + activations,
                chosen.cpu.threads(),
                chosen.cpu.attentionThreads());
        return new Backend(
                executor,
                checkpoint.name(),
                executor.weightBytes(),
                executor.limits().fittingContext(options.contextTokens(checkpoint.config())),
                chosen.cpu.threads(),
                profile,
                name -> new Profiler(executor, Clock.system(), options.seed, log.items()::at).measure(name),
                Optional.empty());
    }

    private static boolean keepsBlocks(Checkpoint checkpoint) {
        return checkpoint.weights() instanceof NamedWeights named
                && named.stored() instanceof GgufWeights gguf
                && gguf.matrixTypes().stream().anyMatch(ElementType::quantised);
    }

    private void report(StartLog log) {
        log.row(
                "device",
                String.format(
                        Locale.ROOT,
                        "CPU, %d threads%s, %d-bit vectors",
                        cpu.threads(),
                        cpu.pinThreads() ? " bound to cores" : "",
                        Lanes.bits()));
        if (options.advanced.pinThreads && !cpu.pinThreads()) {
            log.notice("Threads are not bound to cores: " + topology.pinObstacle(cpu.threads())
                    + ". Steps may take longer and vary more.");
        }
        if (options.gpu.device.equals("auto")) {
            log.notice("The CPU runs the model: no NVIDIA GPU can be used here. tandem doctor says why;"
                    + " --device cpu says that this is meant.");
        }
    }
}
