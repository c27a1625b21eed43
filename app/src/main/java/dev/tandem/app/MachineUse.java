package dev.tandem.app;

import dev.tandem.bench.Statistics;
import dev.tandem.cpu.probe.MachineProbe;
import dev.tandem.engine.clock.Clock;
import java.util.Map;
import java.util.Optional;

/**
 * What the machine does at one moment of a benchmark, taken before and after a run.
 *
 * @param cpuRead GB/s that the CPU reads at most, where it computes
 * @param gpuTime milliseconds that the GPU has worked and waited since its start; empty on the CPU
 */
record MachineUse(Optional<Double> cpuRead, Optional<double[]> gpuTime) {
    /** To be called while the engine has no requests: reading takes the CPU's whole bandwidth. */
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

    /** @param read GB/s of weights that the run read */
    void compare(MachineUse after, double read, Map<String, Object> result) {
        gpuTime.ifPresent(earlier -> {
            double[] now = after.gpuTime().orElseThrow();
            double idle = now[1] - earlier[1];
            result.put("gpu_idle_share", Statistics.rounded(idle / (idle + now[0] - earlier[0])));
        });
        result.put("weights_read_gbps", Statistics.rounded(read));
        cpuRead.ifPresent(first -> {
            double mean = (first + after.cpuRead().orElseThrow()) / 2;
            result.put("machine_read_gbps", Statistics.rounded(mean));
        });
    }
}
