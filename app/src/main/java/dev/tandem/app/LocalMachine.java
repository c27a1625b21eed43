package dev.tandem.app;

import dev.tandem.bench.Recorder;
import dev.tandem.bench.reproduce.EngineSetting;
import dev.tandem.bench.reproduce.FigureMachine;
import dev.tandem.cpu.probe.MachineProbe;
import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.engine.cost.Profile;
import dev.tandem.engine.loop.Engine;
import dev.tandem.engine.strategy.Fidelity;
import dev.tandem.engine.strategy.select.Strategy;
import dev.tandem.model.Checkpoint;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;

/**
 * This machine, which executes figures with the engine that the options of {@code bench throughput} give.
 *
 * <p>Closing it deletes the models' folders.
 */
final class LocalMachine implements FigureMachine, AutoCloseable {
    /**
     * Bytes of host memory beside KV and weights, for the JVM and CUDA's libraries. No experiment chose it; with less,
     * the machine swaps or ends the process in the middle of a run.
     */
    private static final long OTHER_HOST_BYTES = 8L << 30;

    /** What computes. */
    enum Device {
        GPU,
        CPU
    }

    private final Device device;
    /** Usable bytes of the GPU's memory; of the machine's where the CPU computes. */
    private final long weightMemory;

    private final String description;
    private final long hostMemory = CpuBackend.memory();
    /** A folder per model with its configuration alone. */
    private final Path models;

    private LocalMachine(Device device, String description, long weightMemory, Path models) {
        this.device = device;
        this.description = description;
        this.weightMemory = weightMemory;
        this.models = models;
    }

    /** @throws ConfigurationException when the GPU is to compute and none can be used */
    static LocalMachine of(Device device) throws IOException {
        String cpu = MachineProbe.machine();
        return switch (device) {
            case GPU -> {
                CudaBackend.Gpu gpu = CudaBackend.Gpu.find(new GpuOptions())
                        .orElseThrow(() -> new ConfigurationException("--on gpu: no NVIDIA GPU can be used here;"
                                + " tandem doctor says why. Use --on simulate, or --on cpu"));
                long usable = (long) (gpu.memoryBytes() * new MemoryOptions().gpuUtilization);
                yield new LocalMachine(device, gpu.name() + ", " + cpu, usable, folder());
            }
            case CPU -> new LocalMachine(device, "CPU executor, " + cpu, CpuBackend.memory(), folder());
        };
    }

    private static Path folder() throws IOException {
        return Files.createTempDirectory("tandem-models");
    }

    @Override
    public String flag() {
        return device == Device.GPU ? "gpu" : "cpu";
    }

    @Override
    public String describe() {
        return description;
    }

    @Override
    public Optional<String> obstacle(EngineSetting setting) {
        long weights = (long) setting.limits().shape().weightBytes();
        ByteSize gpu = new ByteSize(weights + setting.limits().gpuKvBytes());
        if (gpu.bytes() > weightMemory) {
            return Optional.of("weights and KV of " + setting.limits().model() + " take " + gpu + ", and "
                    + (device == Device.GPU ? "Tandem uses " : "this machine has ") + new ByteSize(weightMemory)
                    + (device == Device.GPU ? " of this GPU" : ""));
        }
        ByteSize host = new ByteSize(setting.hostBytes() + OTHER_HOST_BYTES + (device == Device.CPU ? gpu.bytes() : 0));
        if (host.bytes() > hostMemory) {
            return Optional.of("host KV of " + new ByteSize(setting.hostBytes()) + " and the rest need " + host
                    + " of host memory, and this machine has " + new ByteSize(hostMemory));
        }
        if (device == Device.CPU || !setting.strategy().offloads()) {
            return Optional.empty();
        }
        ModelOptions options = options(setting);
        try (Checkpoint checkpoint = EngineAssembly.open(options)) {
            return CudaBackend.hostObstacle(options, checkpoint.config());
        }
    }

    @Override
    public RunningEngine start(EngineSetting setting, Recorder recorder) {
        List<String> arguments = arguments(setting);
        StartLog log = new StartLog(System.err, true);
        EngineAssembly assembly =
                EngineAssembly.start(LoadedModel.parse(arguments), EngineAssembly.Use.MEASURE, recorder, log);
        log.row("settings", String.join(" ", arguments)); // the assembly knows those of a whole command line
        log.printSummary();
        return new RunningEngine() {
            @Override
            public Engine engine() {
                return assembly.engine();
            }

            @Override
            public void close() {
                assembly.close();
            }
        };
    }

    @Override
    public Profile profile(EngineSetting setting) {
        EngineSetting both = new EngineSetting(setting.limits(), Strategy.ADAPTIVE, Fidelity.TANDEM, List.of());
        return EngineAssembly.profile(options(both), new StartLog(System.err, true));
    }

    private ModelOptions options(EngineSetting setting) {
        return LoadedModel.parse(arguments(setting));
    }

    /** The options with which {@code bench throughput} starts the same engine. */
    private List<String> arguments(EngineSetting setting) {
        List<String> arguments = new ArrayList<>(List.of(
                "--load-format",
                "dummy",
                "--device",
                device == Device.GPU ? "cuda" : "cpu",
                "--strategy",
                setting.strategy().flag(),
                "--fidelity",
                setting.fidelity().flag(),
                "--tpot-target",
                "0",
                "--rotate-after",
                "0"));
        setting.deviations().forEach(deviation -> arguments.addAll(List.of("--deviation", deviation)));
        if (setting.limits().gpuBlocks() > 0) { // else no requests run, and the executor's defaults do
            arguments.addAll(List.of(
                    "--num-gpu-blocks-override",
                    String.valueOf(setting.limits().gpuBlocks()),
                    "--host-kv",
                    String.valueOf(setting.hostBytes()),
                    "--max-num-batched-tokens",
                    String.valueOf(setting.limits().maxBatchTokens()),
                    "--max-prefill-chunk",
                    String.valueOf(setting.limits().maxBatchTokens()),
                    "--max-num-seqs",
                    String.valueOf(setting.limits().maxRequests()),
                    "--max-model-len",
                    String.valueOf(setting.limits().contextTokens()),
                    "--max-queued-requests",
                    String.valueOf(Integer.MAX_VALUE),
                    "--preemption",
                    setting.preemption().name()));
        }
        arguments.addAll(List.of("--", model(setting).toString()));
        return arguments;
    }

    private Path model(EngineSetting setting) {
        Path folder = models.resolve(setting.limits().model());
        try {
            Files.createDirectories(folder);
            Files.writeString(folder.resolve("config.json"), setting.limits().modelConfig());
            return folder;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    @Override
    public void close() throws IOException {
        try (Stream<Path> files = Files.walk(models)) {
            for (Path file : files.sorted(Comparator.reverseOrder()).toList()) {
                Files.delete(file);
            }
        }
    }
}
