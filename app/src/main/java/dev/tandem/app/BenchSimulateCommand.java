package dev.tandem.app;

import dev.tandem.bench.SimulatedExecutor;
import dev.tandem.bench.SimulatedRun;
import dev.tandem.bench.Statistics;
import dev.tandem.bench.Workload;
import dev.tandem.cpu.decode.BlockFormat;
import dev.tandem.cuda.CudaExecutor;
import dev.tandem.cuda.kernels.ModelShape;
import dev.tandem.engine.clock.VirtualClock;
import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.engine.cost.CostModel;
import dev.tandem.engine.cost.Profile;
import dev.tandem.engine.executor.ExecutorLimits;
import dev.tandem.engine.loop.EngineConfig;
import dev.tandem.engine.strategy.PiggybackedPrefill;
import dev.tandem.engine.strategy.Strategy;
import dev.tandem.model.Checkpoint;
import dev.tandem.model.config.ModelConfig;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;
import picocli.CommandLine;

/** {@code bench simulate}. */
@Command(
        name = "simulate",
        mixinStandardHelpOptions = true,
        description = {
            "What a strategy would bring on a machine of which there is a profile, without that machine: the real",
            "scheduler over an executor that only counts time: a steady window, or, with --requests, everything at time 0",
            "until the last request has finished, in seconds of the simulated machine.",
            "Optimistic: copies over the link cost the GPU nothing, and no result is late but for the CPU's queue."
        })
final class BenchSimulateCommand implements Callable<Integer> {
    @Mixin
    ModelOptions options;

    @Mixin
    WorkloadOptions workload;

    @Mixin
    BenchReport report;

    @CommandLine.Spec
    CommandLine.Model.CommandSpec spec;

    @Option(
            names = "--steady",
            defaultValue = "60",
            description = "Simulated seconds that are counted (${DEFAULT-VALUE}).")
    int steady;

    @Option(names = "--requests", description = "Requests of a whole run, instead of a steady window.")
    Optional<Integer> requests = Optional.empty();

    @Option(names = "--warm-up", defaultValue = "120", description = "Simulated seconds before (${DEFAULT-VALUE}).")
    int warmUp;

    @Option(
            names = "--lose-host-at",
            paramLabel = "SECONDS",
            description = "From so many simulated seconds on, every token whose attention the CPU computes is lost, as"
                    + " when a worker dies. Default: never.")
    Optional<Double> loseHostAt = Optional.empty();

    @Override
    public Integer call() throws IOException {
        if (!(loseHostAt.orElse(0.0) >= 0)) {
            throw new IllegalArgumentException(
                    "--lose-host-at " + loseHostAt.get() + " must be a number of seconds, 0 or more");
        }
        if (steady < 1 || warmUp < 0 || requests.orElse(1) < 1) {
            throw new ConfigurationException("--steady " + steady
                    + requests.map(count -> ", --requests " + count).orElse("") + " and --warm-up "
                    + warmUp + ": they must be at least 1, --warm-up at least 0");
        }
        report.check();
        options.check();
        Path file = options.strategy.profile.orElseThrow(
                () -> new ConfigurationException(
                        "bench simulate needs the machine's profile: --profile FILE, as tandem profile --output writes it there"));
        Profile profile = Profile.parse(Files.readString(file), file.toString());
        options.gpu.device = "cuda";
        try (Checkpoint checkpoint = EngineAssembly.open(options)) {
            Workload work = workload.workload(options.seed);
            ExecutorLimits limits = limits(checkpoint.config(), profile);
            int context = (int) Math.min(
                    options.contextTokens(checkpoint.config()), (long) limits.gpuBlocks() * limits.blockTokens());
            EngineConfig config =
                    new EngineConfig(options.budget(), Set.of(), context, Integer.MAX_VALUE, options.seed);
            options.strategy.chosen().check(limits, context);
            Scheduling scheduling = Scheduling.of(
                    options, config.budget(), options.strategy.guard.orElse(false), limits, () -> profile, System.err);
            VirtualClock clock = new VirtualClock();
            SimulatedExecutor executor = new SimulatedExecutor(limits, new CostModel(profile), clock);
            loseHostAt.ifPresent(executor::loseHostAt);
            Map<String, Object> result = BenchReport.circumstances(
                    options,
                    checkpoint.name(),
                    spec.commandLine().getParseResult().originalArgs());
            result.put("machine", "simulated: " + profile.name());
            result.put("workload", workload.name);
            result.put("strategy", options.strategy.chosen().flag());
            SimulatedRun run = new SimulatedRun(config, scheduling.scheduler(), executor, clock, work);
            result.putAll(
                    requests.isPresent()
                            ? run.whole(requests.get())
                            : run.steady(BenchThroughputCommand.concurrency(options, limits, work), warmUp, steady));
            scheduling.cost().ifPresent(cost -> result.put("prediction_error", Statistics.rounded(cost.error())));
            workload.explain(scheduling.log(), System.err);
            report.write(result);
        }
        return 0;
    }

    private ExecutorLimits limits(ModelConfig model, Profile profile) {
        if (profile.layers() != model.layers()) {
            throw new ConfigurationException("--profile is of a model of " + profile.layers()
                    + " layers and this one has "
                    + model.layers() + "; use the profile of this model, or another --model or --preset");
        }
        ModelShape shape = new ModelShape(model, CudaBackend.type(options, model));
        int gpuBlocks = options.gpuBlocks.orElseThrow(
                () -> new ConfigurationException(
                        "bench simulate needs the size of the GPU's pool: --num-gpu-blocks-override, or a --preset that has it"));
        long hostBytes = options.strategy.chosen() == Strategy.GPU_ONLY
                ? 0
                : options.hostKv.map(ByteSize::bytes).orElse(0L);
        int hostBlocks = (int) (hostBytes / (shape.kvBytesPerToken() * BlockFormat.TOKENS));
        CostModel cost = new CostModel(profile);
        int piggybacked = PiggybackedPrefill.of(cost::linear, Integer.MAX_VALUE);
        boolean hybrid = options.strategy.chosen() != Strategy.GPU_ONLY;
        return new ExecutorLimits(
                model.vocabulary(),
                model.usableContext(),
                ModelShape.BLOCK_TOKENS,
                BlockFormat.TOKENS,
                gpuBlocks,
                hostBlocks,
                options.budget().maxBatchTokens(),
                profile.layers(),
                shape.kvBytesPerToken(),
                hybrid,
                hybrid ? CudaExecutor.maxSlots() : 0,
                hybrid ? CudaExecutor.maxHostTokens() : 0,
                false,
                piggybacked);
    }
}
