package dev.tandem.bench;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.engine.cost.CostModel;
import dev.tandem.engine.request.LatencyTargets;
import dev.tandem.engine.strategy.select.Strategy;
import java.util.Map;
import java.util.stream.DoubleStream;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

@Execution(ExecutionMode.CONCURRENT)
class TimingErrorsTest {
    @Test
    void partsChangeTheirComponentsOnly() {
        CostModel predicted = new CostModel(SimulatedMachine.H200_26K.profile);
        CostModel machine = new CostModel(TimingErrors.parse("gemm=1.1,gpu-attention=0.9,host-attention=1.3,launch=2")
                .machine(SimulatedMachine.H200_26K.profile));

        assertThat(machine.linear(64) / predicted.linear(64)).isCloseTo(1.1, within(1e-9));
        assertThat(machine.postLayer(64) / predicted.postLayer(64)).isCloseTo(1.1, within(1e-9));
        assertThat(machine.gpuAttention(8000) / predicted.gpuAttention(8000)).isCloseTo(0.9, within(1e-9));
        assertThat(machine.cpuAttention(14, 14_000) / predicted.cpuAttention(14, 14_000))
                .isCloseTo(1.3, within(1e-9));
        assertThat(machine.transfer(1 << 26)).isEqualTo(predicted.transfer(1 << 26));
        assertThat(machine.tripOverhead()).isEqualTo(2 * predicted.tripOverhead());
    }

    @Test
    void aSeedDrawsTheSameErrorsAgainAndOthersDiffer() {
        assertThat(TimingErrors.parse("7")).isEqualTo(TimingErrors.drawn(7)).isNotEqualTo(TimingErrors.drawn(8));
        assertThat(TimingErrors.parse("none")).isEqualTo(TimingErrors.NONE);
    }

    @Test
    void noiseKeepsTheMeanAndLateWorkersTakeTenTimesAsLong() {
        TimingErrors.Draws noisy = new TimingErrors.Draws(TimingErrors.parse("noise=0.2,seed=1"));
        TimingErrors.Draws late = new TimingErrors.Draws(TimingErrors.parse("late=0.1,seed=1"));
        TimingErrors.Draws none = new TimingErrors.Draws(TimingErrors.NONE);

        assertThat(DoubleStream.generate(noisy::step).limit(10_000).average().orElseThrow())
                .isCloseTo(1, within(0.01));
        assertThat(DoubleStream.generate(late::task).limit(10_000).average().orElseThrow())
                .isCloseTo(1.9, within(0.1));
        assertThat(none.step() * none.task()).isEqualTo(1);
    }

    @ParameterizedTest
    @CsvSource({"0, 1", "599, 1", "600, 1.5", "899, 1.5", "900, 1", "1500, 1.5"})
    void aBusyHostIsSlowerForFiveOfFifteenMinutes(double seconds, double factor) {
        TimingErrors errors = TimingErrors.parse("busy-host=1.5");
        assertThat(new TimingErrors.Draws(errors).hostAttention(seconds)).isEqualTo(factor);
        assertThat(new CostModel(errors.machine(SimulatedMachine.H200_26K.profile)).cpuAttention(14, 14_000))
                .isEqualTo(new CostModel(SimulatedMachine.H200_26K.profile).cpuAttention(14, 14_000));
    }

    @Test
    void errorsNameThePartAndTheLimit() {
        assertThatThrownBy(() -> TimingErrors.parse("gems=1"))
                .isInstanceOf(ConfigurationException.class)
                .hasMessageContaining("'gems=1' is not known; use none, a seed");
        assertThatThrownBy(() -> TimingErrors.parse("busy-host=20"))
                .hasMessageContaining("busy-host=20.0 must lie between 0.1 and 10");
        assertThatThrownBy(() -> TimingErrors.parse("late=2")).hasMessageContaining("late=2.0 must lie between 0");
    }

    /** Hosts that are slower and later than predicted lower what offloading brings. */
    @Test
    void lateWorkersSlowDownAsyncOverlap() {
        SimulatedMachine machine = SimulatedMachine.H200_2REQ;
        double exact = machine.rateWithErrors(
                Strategy.ASYNC_OVERLAP, "osc", false, TimingErrors.NONE, SimulatedMachine.WARM_UP_SECONDS, 60);
        double late = machine.rateWithErrors(
                Strategy.ASYNC_OVERLAP,
                "osc",
                false,
                TimingErrors.parse("host-attention=1.5,late=0.02,seed=1"),
                100,
                60);

        assertThat(late / exact).isLessThan(0.9);
    }

    /** In the five minutes in which the host is busy, steps take 189 ms if none returns. */
    @Test
    void sequencesReturnFromABusyHost() {
        Map<String, Object> window = SimulatedMachine.IMITATED_L4
                .withErrors(
                        Strategy.ADAPTIVE,
                        Workload.parse("reasoning", 1),
                        false,
                        new LatencyTargets(0, 160_000_000),
                        TimingErrors.parse("busy-host=1.5"))
                .steady(new FirstRequests(152, 60), 600, 300);

        assertThat(window.get("failed")).isEqualTo(0);
        assertThat((double) window.get("host_wait_fraction")).isGreaterThan(0.01);
        assertThat((double) window.get("mean_window_tpot_ms")).isLessThan(178);
    }

    /** Whatever the errors, the guarded default does not lose against the GPU alone on the same machine. */
    @ParameterizedTest
    @CsvSource({"H200_2REQ, osc, 1"})
    void theGuardNeverLosesToGpuOnly(String name, String workload, String spec) {
        assertGuardKeepsUp(name, workload, spec);
    }

    @Tag("slow")
    @ParameterizedTest
    @CsvSource({"H200_8SM_2REQ, osc, 3", "H200_26K, synthetic:1000/200, host-attention=2"})
    void theGuardNeverLosesToGpuOnlyElsewhere(String name, String workload, String spec) {
        assertGuardKeepsUp(name, workload, spec);
    }

    private static void assertGuardKeepsUp(String name, String workload, String spec) {
        SimulatedMachine machine = SimulatedMachine.valueOf(name);
        TimingErrors errors = TimingErrors.parse(spec);
        double alone = machine.rateWithErrors(
                Strategy.GPU_ONLY, workload, false, errors, SimulatedMachine.GUARDED_WARM_UP_SECONDS, 100);
        double both = machine.rateWithErrors(
                Strategy.ADAPTIVE, workload, true, errors, SimulatedMachine.GUARDED_WARM_UP_SECONDS, 100);

        assertThat(both / alone)
                .as("%s, %s, error %s: %.1f tokens/s, gpu-only %.1f", machine, workload, spec, both, alone)
                .isGreaterThanOrEqualTo(0.99);
    }
}
