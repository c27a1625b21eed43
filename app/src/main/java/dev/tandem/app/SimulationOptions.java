package dev.tandem.app;

import dev.tandem.bench.TimingErrors;
import dev.tandem.cpu.decode.BlockFormat;
import dev.tandem.cuda.CudaExecutor;
import dev.tandem.cuda.kernels.ModelShape;
import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.engine.cost.CostModel;
import dev.tandem.engine.cost.Profile;
import dev.tandem.engine.executor.ExecutorLimits;
import dev.tandem.model.config.ModelConfig;
import java.util.Optional;
import picocli.CommandLine.Option;

/** Options of {@code bench simulate}: the workload, and the limits of the simulated executor. */
@Section(Section.Heading.COMMAND)
final class SimulationOptions {
    @Option(
            names = "--steady",
            paramLabel = "SECONDS",
            defaultValue = "60",
            description = "Simulated seconds of the measured window in which requests that end are replaced. The"
                    + " first begin in the middle of their output, as those of bench throughput."
                    + " Default: ${DEFAULT-VALUE}.")
    int steady;

    @Option(
            names = "--requests",
            paramLabel = "NUMBER",
            description = "Run this many requests from start to end, all at time 0 or as --request-rate says, in place"
                    + " of a window. Default: a window.")
    Optional<Integer> requests = Optional.empty();

    @Option(
            names = "--warm-up",
            paramLabel = "SECONDS",
            defaultValue = "120",
            description = "Simulated seconds before the window. Default: ${DEFAULT-VALUE}.")
    int warmUp;

    @Option(
            names = "--lose-host-at",
            paramLabel = "SECONDS",
            description = "Simulated time from which on every token whose attention the CPU computes is lost, as when a"
                    + " worker dies. Default: never.")
    Optional<Double> loseHostAt = Optional.empty();

    @Option(
            names = "--error",
            paramLabel = "SPEC|SEED",
            defaultValue = "none",
            description = "How the machine differs from the profile that predictions use: a seed that draws all"
                    + " factors, or parts such as gemm=1.1,gpu-attention=0.9,launch=1.5,host-attention=1.3,link=1.2,"
                    + "busy-host=1.3,noise=0.05,late=0.01,seed=7. Default: ${DEFAULT-VALUE}.")
    String error;

    /** @throws ConfigurationException that names the option, its value and the limit */
    void check() {
        TimingErrors.parse(error);
        if (!(loseHostAt.orElse(0.0) >= 0)) {
            throw new ConfigurationException(
                    "--lose-host-at " + loseHostAt.get() + " must be a number of seconds, 0 or more");
        }
        if (steady < 1 || warmUp < 0 || requests.orElse(1) < 1) {
            throw new ConfigurationException("--steady " + steady
                    + requests.map(count -> ", --requests " + count).orElse("") + " and --warm-up "
                    + warmUp + ": they must be at least 1, --warm-up at least 0");
        }
    }

    /** The limits that a CUDA executor with these options would have. */
    static ExecutorLimits limits(ModelOptions options, ModelConfig model, Profile profile) {
        if (profile.layers() != model.layers()) {
            throw new ConfigurationException("--profile is of a model of " + profile.layers()
                    + " layers and this one has "
                    + model.layers() + "; use the profile of this model, or another --model or --preset");
        }
        ModelShape shape = new ModelShape(model, CudaBackend.type(options, model));
        int gpuBlocks = CudaBackend.gpuBlocks(options.memory, shape)
                .orElseThrow(() -> new ConfigurationException("bench simulate needs the size of the GPU's pool:"
                        + " --num-gpu-blocks-override, --kv-cache-memory, a --preset that has it, or --hardware"));
        boolean hybrid = options.strategy.chosen().offloads();
        int maxBatchTokens = options.budget().maxBatchTokens();
        // preempted KV goes there, and gpu-only computes a prompt again where there is none
        long hostBytes = options.memory.hostKv.map(ByteSize::bytes).orElse(hybrid ? 0L : CpuBackend.MAX_DEFAULT_KV);
        int hostBlocks = (int) (hostBytes / (shape.kvBytesPerToken() * BlockFormat.TOKENS));
        CostModel cost = new CostModel(profile);
        return ExecutorLimits.builder()
                .vocabulary(model.vocabulary())
                .contextTokens(model.contextTokens())
                .blockTokens(ModelShape.BLOCK_TOKENS)
                .hostBlockTokens(BlockFormat.TOKENS)
                .gpuBlocks(gpuBlocks)
                .stagesPrefills(hybrid)
                .hostBlocks(hostBlocks)
                .maxBatchTokens(maxBatchTokens)
                .layers(profile.layers())
                .kvBytesPerToken(shape.kvBytesPerToken())
                .overlaps(hybrid)
                .inFlight(hybrid ? CudaBackend.slots(options) : 0, hybrid ? CudaExecutor.maxHostTokens() : 0, hybrid)
                .piggybacking(cost.piggybacking())
                .windows(model.windows())
                .build();
    }
}
