package dev.tandem.bench;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.engine.strategy.select.Strategy;
import java.util.EnumMap;
import java.util.EnumSet;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;

/**
 * The real schedulers over measured profiles, in virtual time: what a change of a policy does to throughput shows here
 * before it shows on a machine. All strategies have equal pools of GPU blocks. Bounds are some per cent below what was
 * found when they were set. Each simulation runs on one thread and shares nothing, so they run side by side.
 */
@Execution(ExecutionMode.CONCURRENT)
class StrategiesPayTest {
    /** What gpu-only does, by machine, workload and warm-up. */
    private static final Map<String, Double> BASELINE = new ConcurrentHashMap<>();

    @ParameterizedTest
    @CsvSource({
        "H200_8SM_2REQ, osc, ADAPTIVE, false, 3.0",
        "H200_26K, synthetic:1000/400, ASYNC_OVERLAP, false, 1.1",
        "H100_26K, synthetic:1000/400, ADAPTIVE, false, 1.08",
        "H200_2REQ, osc, ADAPTIVE, true, 2.0",
        "T4_TIGHT_FASTER_HOST, osc, ADAPTIVE_PIPELINING, true, 1.55",
    })
    void offloadingPaysWhereItShould(String machine, String workload, Strategy strategy, boolean guarded, double min) {
        assertPays(machine, workload, strategy, guarded, min);
    }

    @Tag("slow")
    @ParameterizedTest
    @CsvSource({
        "H200_8SM_2REQ, osc, ASYNC_OVERLAP, false, 3.0",
        "H200_2REQ, osc, ASYNC_OVERLAP, true, 2.0",
        "H200_8SM_2REQ, osc, ADAPTIVE_PIPELINING, false, 3.2",
        "H200_8SM_2REQ, osc, ASYNC_OVERLAP, true, 3.0",
        "H200_2REQ, osc, ADAPTIVE_PIPELINING, true, 1.45",
        "H200_16SM_26K, synthetic:1000/400, ASYNC_OVERLAP, false, 1.03",
        "H200_26K, synthetic:1000/200, ASYNC_OVERLAP, false, 1.05",
        "H200_26K, synthetic:1000/200, ADAPTIVE_PIPELINING, false, 0.85",
        "H200_TIGHT_LIBRARY, synthetic:1000/200, ADAPTIVE_PIPELINING, false, 0.9",
        "H200_16SM_26K, synthetic:1000/200, ASYNC_OVERLAP, true, 0.99",
        "H200_16SM_26K, synthetic:1000/200, ADAPTIVE_PIPELINING, true, 1.04",
        "H200_16SM_26K, osc, ASYNC_OVERLAP, true, 0.97",
        "H200_26K, synthetic:1000/200, ASYNC_OVERLAP, true, 1.08",
        "H200_26K, synthetic:1000/200, ADAPTIVE_PIPELINING, true, 0.97",
        "H200_26K, osc, ASYNC_OVERLAP, true, 0.97",
    })
    void offloadingPaysElsewhere(String machine, String workload, Strategy strategy, boolean guarded, double min) {
        assertPays(machine, workload, strategy, guarded, min);
    }

    /** With ADR 133 gpu-only has 19 % more there, so little is left to gain, and nothing may be lost. */
    @Tag("slow")
    @ParameterizedTest
    @CsvSource({"ADAPTIVE_PIPELINING, false", "ADAPTIVE, false", "ADAPTIVE, true"})
    void offloadingLosesNothingWhereLittleIsLeft(Strategy strategy, boolean guarded) {
        assertPays("H200_16SM_26K", "synthetic:1000/400", strategy, guarded, 0.99);
    }

    private static void assertPays(String machine, String workload, Strategy strategy, boolean guarded, double min) {
        SimulatedMachine simulated = SimulatedMachine.valueOf(machine);
        int warmUp = guarded ? SimulatedMachine.GUARDED_WARM_UP_SECONDS : SimulatedMachine.WARM_UP_SECONDS;
        double alone = BASELINE.computeIfAbsent(
                machine + workload + warmUp, key -> simulated.rate(Strategy.GPU_ONLY, workload, false, warmUp));
        double both = simulated.rate(strategy, workload, guarded, warmUp);
        assertThat(both / alone)
                .as("%s, %s, %s to gpu-only, guarded: %s", machine, workload, strategy.flag(), guarded)
                .isGreaterThan(min);
    }

    /** The guard notices, whatever was promised: what its attempts cost in so many seconds is all that is lost. */
    @Tag("slow")
    @ParameterizedTest
    @CsvSource({
        "H200_26K, azure-code, 2000, 0.985",
        "H200_26K, synthetic:1000/200, 1000, 0.96",
        "H200_26K, osc, 1000, 0.985",
        "H200_16SM_26K, synthetic:1000/200, 5000, 0.985",
    })
    void onAMachineThatIsAFifthSlowerTheGuardKeepsGpuOnlysPace(
            String machine, String workload, int seconds, double min) {
        double alone = SimulatedMachine.valueOf(machine).rate(Strategy.GPU_ONLY, workload, false, 1, seconds);
        double both = SimulatedMachine.valueOf(machine).rate(Strategy.ASYNC_OVERLAP, workload, true, 1.2, seconds);
        assertThat(both / alone).as("%s, %s", machine, workload).isGreaterThan(min);
    }

    /** A burst, with the time in which the last requests are the host's alone. */
    @ParameterizedTest
    @CsvSource({"ASYNC_OVERLAP, 1.4", "ADAPTIVE_PIPELINING, 2.5", "ADAPTIVE, 2.1"})
    void offloadingPaysForABurst(Strategy strategy, double min) {
        double alone = SimulatedMachine.H200_8SM_2REQ.wholeRate(Strategy.GPU_ONLY, "osc", 100);
        assertThat(SimulatedMachine.H200_8SM_2REQ.wholeRate(strategy, "osc", 100) / alone)
                .isGreaterThan(min);
    }

    @ParameterizedTest
    @EnumSource(
            value = Strategy.class,
            names = {"SIMPLE_OFFLOAD", "SYMMETRIC", "FASTDECODE_PLUS", "ASYMMETRIC"})
    void everyStrategyGetsAnywhere(Strategy strategy) {
        Map<SimulatedMachine, Double> rates = new EnumMap<>(SimulatedMachine.class);
        // the imitated L4 still computes its first prompts then, and has 4 tokens/s
        for (SimulatedMachine machine : EnumSet.complementOf(EnumSet.of(SimulatedMachine.IMITATED_L4))) {
            rates.put(machine, machine.earlyRate(strategy, "synthetic:400/100"));
        }
        assertThat(rates.values())
                .as("%s: %s", strategy.flag(), rates)
                .allSatisfy(rate -> assertThat(rate).isGreaterThan(10));
    }
}
