package dev.tandem.app;

import dev.tandem.bench.Profiler;
import dev.tandem.cpu.CpuExecutor;
import dev.tandem.cpu.CpuOptions;
import dev.tandem.cpu.attention.KvStore;
import dev.tandem.cpu.simd.Lanes;
import dev.tandem.cpu.simd.MatrixPacker;
import dev.tandem.cpu.topology.CpuTopology;
import dev.tandem.cpu.topology.NumaInterleaving;
import dev.tandem.engine.clock.Clock;
import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.model.Checkpoint;
import dev.tandem.model.config.DataType;
import dev.tandem.model.config.ModelConfig;
import dev.tandem.model.gguf.GgufWeights;
import dev.tandem.model.weights.ElementType;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.util.Locale;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;

/** The CPU executor from the options: chooses what they leave open and says so. */
final class CpuBackend {
    private static final long MAX_KV = 4L << 30;

    private final ModelOptions options;
    private final ModelConfig config;
    private final CpuTopology topology;
    private final CpuOptions cpu;
    private final int contextTokens;
    private final long blockBytes;

    private CpuBackend(ModelOptions options, ModelConfig config) {
        this.options = options;
        this.config = config;
        DataType type = options.dtype.equals("auto") ? config.fileType() : DataType.of(options.dtype);
        this.blockBytes = config.kvBytesPerToken(type) * KvStore.BLOCK_TOKENS;
        long budget = options.kvCacheMemory.map(ByteSize::bytes).orElse(defaultKv());
        int gpuBlocks = options.gpuBlocks.orElse(blocks(budget));
        int hostBlocks = blocks(options.hostKv.map(ByteSize::bytes).orElse(budget));
        this.contextTokens = (int) Math.min(options.contextTokens(config), (long) gpuBlocks * KvStore.BLOCK_TOKENS);
        if (gpuBlocks == 0) {
            throw new ConfigurationException("--kv-cache-memory " + new ByteSize(budget) + " holds no KV block of "
                    + new ByteSize(blockBytes) + "; raise it or set --num-gpu-blocks-override");
        }
        checkMemory(gpuBlocks, hostBlocks);
        int threads = options.threads.orElse(Runtime.getRuntime().availableProcessors());
        this.topology = CpuTopology.find();
        this.cpu = new CpuOptions(
                threads,
                options.attentionThreads.orElse(threads),
                options.pinThreads && topology.canPin(threads),
                type,
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
        return Math.min(MAX_KV, memory() / 4);
    }

    /** Bytes of the machine, or of what it grants this process. */
    static long memory() {
        return ManagementFactory.getOperatingSystemMXBean() instanceof com.sun.management.OperatingSystemMXBean system
                ? system.getTotalMemorySize()
                : Runtime.getRuntime().maxMemory();
    }

    /** Takes ownership of the checkpoint unless it throws. */
    static Backend start(ModelOptions options, Checkpoint checkpoint, PrintStream log) {
        CpuBackend chosen = new CpuBackend(options, checkpoint.config());
        chosen.report(log);
        if (checkpoint.weights() instanceof GgufWeights gguf) {
            chosen.reportUnpacked(gguf.matrixTypes(), log);
        }
        if (options.gpu.kvChecksums) {
            log.println("given up: --kv-checksums, the CPU executor moves nothing over a link");
        }
        CpuExecutor executor = new CpuExecutor(checkpoint, chosen.cpu);
        NumaInterleaving.system().report().ifPresent(log::println);
        String profile = Profiles.name(
                checkpoint.name(), chosen.cpu.weightType().flag(), chosen.cpu.threads(), chosen.cpu.attentionThreads());
        return new Backend(
                executor,
                checkpoint.name(),
                executor.weightBytes(),
                chosen.contextTokens,
                profile,
                name -> new Profiler(executor, Clock.system(), options.seed, Terminal.standardError()::count)
                        .measure(name),
                Optional.empty());
    }

    private void reportUnpacked(Set<ElementType> types, PrintStream log) {
        String unpacked = types.stream()
                .filter(type -> type.quantised() && !MatrixPacker.keepsBlocks(type))
                .map(ElementType::name)
                .collect(Collectors.joining(", "));
        if (!unpacked.isEmpty()) {
            log.println("given up: blocks of " + unpacked + " are unpacked to "
                    + cpu.weightType().flag() + ", " + cpu.weightType().bytes()
                    + " bytes per weight; Q4_0, Q4_1 and Q8_0 stay as they are in the file");
        }
    }

    private void report(PrintStream log) {
        log.printf(
                Locale.ROOT,
                "executor: CPU, %d threads%s, %d-bit vectors, weights and KV %s (--dtype %s)%n",
                cpu.threads(),
                cpu.pinThreads() ? " pinned" : "",
                Lanes.bits(),
                cpu.weightType().flag(),
                options.dtype);
        log.printf(
                Locale.ROOT,
                "KV: GPU pool %,d blocks (%s), host pool %,d blocks (%s); context %,d tokens%n",
                cpu.gpuBlocks(),
                new ByteSize(cpu.gpuBlocks() * blockBytes),
                cpu.hostBlocks(),
                new ByteSize(cpu.hostBlocks() * blockBytes),
                contextTokens);
        if (options.pinThreads && !cpu.pinThreads()) {
            log.println("given up: threads are not pinned, " + topology.pinObstacle(cpu.threads()));
        }
        if (options.gpu.device.equals("auto")) {
            log.println(
                    "given up: this machine has no NVIDIA GPU that can be used, the CPU computes (tandem doctor says why)");
        }
    }
}
