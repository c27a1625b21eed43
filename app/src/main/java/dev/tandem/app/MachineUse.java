package dev.tandem.app;

import dev.tandem.bench.Statistics;
import dev.tandem.cpu.probe.MachineProbe;
import dev.tandem.engine.clock.Clock;
import java.util.Map;
import java.util.Optional;

/**
 * A measurement of the machine before or after a benchmark run.
 *
 * @param cpuRead peak read bandwidth of the CPU in GB/s, if the CPU computes
 * @param gpuTime milliseconds since the start in which the GPU was busy and idle; empty on the CPU
 */
record MachineUse(Optional<Double> cpuRead, Optional<double[]> gpuTime) {
    /** Measures the machine. The engine must have no requests, because the probe takes the CPU's whole bandwidth. */
    static MachineUse measure(ModelOptions options, EngineAssembly assembly) {
        return new MachineUse(cpuRead(options), assembly.gpuTime());
    }

    private static Optional<Double> cpuRead(ModelOptions options) {
        if (options.gpu.chosen()) {
            return Optional.empty();
        }
        int threads = options.advanced.threads.orElse(Runtime.getRuntime().availableProcessors());
        try (MachineProbe probe = new MachineProbe(threads, Clock.system())) {
            return Optional.of(probe.readGigabytesPerSecond());
        }
    }

    /** @param read GB/s at which the run read weights */
    void compare(MachineUse after, double read, Map<String, Object> result) {
        gpuTime.ifPresent(earlier -> {
            double[] now = after.gpuTime().orElseThrow();
            double idle = now[1] - earlier[1];
            result.put("gpu_idle_fraction", Statistics.rounded(idle / (idle + now[0] - earlier[0])));
        });
        result.put("weights_read_gbps", Statistics.rounded(read));
        cpuRead.ifPresent(first -> {
            double mean = (first + after.cpuRead().orElseThrow()) / 2;
            result.put("machine_read_gbps", Statistics.rounded(mean));
        });
    }
}
