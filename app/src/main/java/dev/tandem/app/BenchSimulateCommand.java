package dev.tandem.app;

import dev.tandem.bench.SimulatedExecutor;
import dev.tandem.bench.SimulatedRun;
import dev.tandem.bench.Statistics;
import dev.tandem.bench.TimingErrors;
import dev.tandem.bench.Workload;
import dev.tandem.bench.hardware.Hardware;
import dev.tandem.bench.hardware.ModelShape;
import dev.tandem.bench.ideal.Bounds;
import dev.tandem.bench.load.Load;
import dev.tandem.bench.load.LoadWindow;
import dev.tandem.engine.clock.VirtualClock;
import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.engine.cost.Profile;
import dev.tandem.engine.executor.ExecutorLimits;
import dev.tandem.engine.kv.PrefixCacheUse;
import dev.tandem.engine.loop.EngineConfig;
import dev.tandem.model.Checkpoint;
import dev.tandem.model.Checkpoint.LoadFormat;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.function.Function;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;

/** Runs {@code bench simulate}. */
@Command(
        name = "simulate",
        mixinStandardHelpOptions = true,
        description = "Predicts throughput on another machine from its profile, or from a description of its hardware:"
                + " the real scheduler runs over an executor that only counts time. It is optimistic: copies over the"
                + " link cost the GPU nothing, and only the CPU's queue makes results late. Of the model the"
                + " configuration alone is needed; MODEL may also be Llama-3.1-8B, Llama-2-7B, Qwen3-14B or Qwen3-32B."
                + " --hardware without a preset"
                + " sets what other options leave open: --kv-cache-memory to 0.95 of the GPU's memory, or the fraction"
                + " of --gpu-memory-utilization, less the weights and 1 GB; --host-kv to the machine's, and"
                + " --max-num-seqs to 1024.",
        footerHeading = "%nExamples:%n",
        footer = {
            "  tandem bench simulate --hardware l4-16vcpu --model Llama-3.1-8B --tpot-target 160 --strategy adaptive",
            "  tandem bench simulate --profile my-profile.txt --preset h200-8sm-2req --workload osc --strategy neo",
            "  tandem bench simulate --profile my-profile.txt --preset h200-26k --strategy gpu-only,neo,apex",
            "  tandem bench simulate --profile my-profile.txt --preset h200-26k --requests 100 --json",
            "  tandem bench simulate --profile my-profile.txt --preset h200-26k --request-rate 5,10,15 --duration 300"
        })
final class BenchSimulateCommand implements Callable<Integer>, StrategyComparison.Benchmark {
    @Mixin
    ModelOptions options = new ModelOptions();

    @Mixin
    WorkloadOptions workload = new WorkloadOptions();

    @Mixin
    HardwareOptions described = new HardwareOptions();

    @Mixin
    SimulationOptions simulation = new SimulationOptions();

    @Mixin
    LoadOptions load = new LoadOptions();

    @Mixin
    BenchReport report = new BenchReport();

    @CommandLine.Spec
    CommandLine.Model.CommandSpec spec;

    @Override
    public ModelOptions options() {
        return options;
    }

    @Override
    public BenchReport report() {
        return report;
    }

    @Override
    public Integer call() throws IOException, InterruptedException {
        StrategyComparison.run(this, spec.commandLine().getParseResult().originalArgs());
        return 0;
    }

    @Override
    public List<Map<String, Object>> measure() throws IOException {
        simulation.check();
        load.check();
        workload.check(!load.isOpen() && simulation.requests.isEmpty());
        report.check();
        options.gpu.device = "cuda";
        options.check();
        Optional<Hardware> machine = machine();
        resolveModel(machine);
        try (Checkpoint checkpoint = EngineAssembly.open(options)) {
            Profile profile = machine.isPresent() ? describe(machine.get()) : read(options.strategy.profile.get());
            ExecutorLimits limits = SimulationOptions.limits(options, checkpoint.config(), profile);
            Workload work = workload.workload(options.seed);
            Simulator simulator = new Simulator(
                    profile, machine.map(Hardware::name), limits, config(checkpoint, limits), work, checkpoint.name());
            if (load.isOpen()) {
                LoadWindow window = load.window(simulation.requests, simulation.warmUp);
                LoadOptions.Measured measured = load.run(
                        window, options.seed, System.err, one -> simulator.run(run -> describe(one, run.open(one))));
                List<String> arguments = spec.commandLine().getParseResult().originalArgs();
                load.writeReports(measured, "tandem " + String.join(" ", arguments));
                return measured.results();
            }
            work.ofSingleRequests("add --request-rate");
            int concurrency = BenchThroughputCommand.concurrency(options, limits, work);
            return List.of(simulator.run(run -> simulation.requests.isPresent()
                    ? run.whole(simulation.requests.get())
                    : run.steady(workload.first(concurrency), simulation.warmUp, simulation.steady)));
        }
    }

    /** The described machine; empty where --profile has a measured one. */
    private Optional<Hardware> machine() {
        if (options.strategy.profile.isEmpty()) {
            return Optional.of(described
                    .machine(options.advanced.preset)
                    .orElseThrow(() -> new ConfigurationException("bench simulate needs a machine: --profile FILE, as"
                            + " tandem profile --output writes it there, a --preset, or --hardware with a file or one"
                            + " of " + String.join(", ", Hardware.NAMES))));
        }
        described.hardware.ifPresent(name -> {
            throw new ConfigurationException("--profile " + options.strategy.profile.get() + " and --hardware " + name
                    + " are two machines; leave one out");
        });
        return Optional.empty();
    }

    /** Sets the directory of a described model; a simulation needs the configuration alone. */
    private void resolveModel(Optional<Hardware> machine) {
        Optional<String> model = options.model();
        if (model.filter(ModelConfigurations.NAMES::contains).isPresent()) {
            options.use(ModelConfigurations.directory(model.get(), CudaBackend.cache())
                    .toString());
        } else if (machine.isPresent() && model.isEmpty() && options.advanced.preset.isEmpty()) {
            throw new ConfigurationException(
                    "--hardware needs a model: --model with a directory, " + HardwareOptions.names());
        }
        options.loadFormat = LoadFormat.DUMMY;
    }

    private static Profile read(Path file) throws IOException {
        return Profile.parse(Files.readString(file), file.toString());
    }

    /** The profile of a described machine, whose memory replaces what the options leave open. */
    private Profile describe(Hardware machine) throws IOException {
        ModelShape shape = HardwareOptions.shape(options.model().orElseThrow());
        MemoryOptions memory = options.memory;
        if (memory.gpuBlocks.isEmpty() && memory.kvCacheMemory.isEmpty()) {
            double used = spec.commandLine().getParseResult().hasMatchedOption("--gpu-memory-utilization")
                    ? memory.gpuUtilization
                    : HardwareOptions.GPU_MEMORY_USED;
            memory.kvCacheMemory = Optional.of(new ByteSize((long) HardwareOptions.gpuKvBytes(machine, shape, used)));
        }
        memory.hostKv = memory.hostKv.or(
                () -> Optional.of(new ByteSize((long) machine.host().kvBytes())));
        options.scheduling.maxNumSeqs = options.scheduling.maxNumSeqs.or(() -> Optional.of(Bounds.WIDE.maxSequences()));
        return machine.profile(shape);
    }

    @Override
    public void checkForSeveral() {
        load.checkForSeveral();
    }

    private EngineConfig config(Checkpoint checkpoint, ExecutorLimits limits) {
        int context = limits.fittingContext(options.contextTokens(checkpoint.config()));
        options.strategy.chosen().check(limits, context);
        return new EngineConfig(options.budget(), Set.of(), context, Integer.MAX_VALUE, options.seed)
                .withPrefixCache(options.memory.prefixCache(false));
    }

    private Map<String, Object> describe(Load one, SimulatedRun.OpenLoop open) {
        Map<String, Object> result = load.describe(one, open.load());
        result.put("host_token_fraction", Statistics.rounded(open.hostTokenFraction()));
        result.put("host_busy_fraction", Statistics.rounded(open.hostBusyFraction()));
        if (options.memory.prefixCaching.orElse(false)) {
            PrefixCacheUse use = open.prefixCache();
            result.put("prompt_tokens_looked_up", use.queries());
            result.put("gpu_hits", use.gpuHits());
            result.put("host_hits", use.hostHits());
            result.put("copied_hits", use.copiedHits());
            result.put("demotions", use.demotions());
        }
        return result;
    }

    /** Simulates runs one after another, each from the engine's start. */
    private final class Simulator {
        private final Profile profile;
        private final Optional<String> hardware;
        private final ExecutorLimits limits;
        private final EngineConfig config;
        private final Workload work;
        private final String model;
        private boolean summarised;

        /** @param hardware name of the described machine; empty where the profile was given */
        Simulator(
                Profile profile,
                Optional<String> hardware,
                ExecutorLimits limits,
                EngineConfig config,
                Workload work,
                String model) {
            this.profile = profile;
            this.hardware = hardware;
            this.limits = limits;
            this.config = config;
            this.work = work;
            this.model = model;
        }

        Map<String, Object> run(Function<SimulatedRun, Map<String, Object>> measure) {
            StartLog log = new StartLog(System.err, true);
            boolean guarded = options.strategy.guard.orElse(false);
            Scheduling scheduling = Scheduling.of(options, config.budget(), guarded, limits, () -> profile, log);
            if (!summarised) {
                summarised = true;
                StartSummary.memory(limits, log);
                log.printSummary();
            }
            VirtualClock clock = new VirtualClock();
            SimulatedExecutor executor =
                    SimulatedExecutor.withErrors(limits, profile, clock, TimingErrors.parse(simulation.error));
            simulation.loseHostAt.ifPresent(executor::loseHostAt);
            Map<String, Object> result = BenchReport.circumstances(
                    options, model, spec.commandLine().getParseResult().originalArgs());
            result.put("machine", "simulated: " + profile.name());
            hardware.ifPresent(name -> result.put("hardware", name));
            result.put("workload", work.name());
            options.strategy.describe(result);
            result.put("gpu_kv_bytes", limits.gpuKvBytes());
            result.putAll(measure.apply(new SimulatedRun(config, scheduling.scheduler(), executor, clock, work)));
            ProfileIdeal.complete(result, options, profile, limits, work, 0);
            scheduling.cost().ifPresent(cost -> BenchReport.addPredictions(result, cost));
            workload.explain(scheduling.decisions(), System.err);
            return result;
        }
    }
}
