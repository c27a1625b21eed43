package dev.tandem.bench;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.bench.SimulatedMachine.Host;
import dev.tandem.engine.strategy.select.Strategy;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/**
 * Where requests may not use the host tier, the guarded default does what gpu-only does, with equal GPU bytes.
 * {@code tools/simulate.sh} runs every preset and workload; these are the fast ones.
 */
@Execution(ExecutionMode.CONCURRENT)
class UnusableHostTest {
    @ParameterizedTest
    @CsvSource({
        "H200_2REQ, osc, TINY_POOL, 100",
        "H200_2REQ, osc, STRICT_TARGET, 100",
        "H200_2REQ, osc, LOST, 100",
        "H200_8SM_2REQ, osc, TINY_POOL, 100",
        "H200_8SM_2REQ, osc, STRICT_TARGET, 100",
        "H200_8SM_2REQ, osc, LOST, 100",
        "H200_26K, synthetic:1000/200, TINY_POOL, 100",
        "H200_26K, synthetic:1000/200, STRICT_TARGET, 400",
        "H200_26K, synthetic:1000/200, LOST, 100",
    })
    void theGuardedDefaultDoesWhatGpuOnlyDoes(String name, String workload, Host host, int seconds) {
        SimulatedMachine machine = SimulatedMachine.valueOf(name);
        double alone = machine.rate(Strategy.GPU_ONLY, workload, false, 1, seconds);
        double both = machine.guardedRate(Strategy.ADAPTIVE, workload, host, seconds);
        assertThat(both / alone)
                .as("%s, %s, host %s: %.1f tokens/s, gpu-only %.1f", machine, workload, host, both, alone)
                .isGreaterThanOrEqualTo(0.99);
    }
}
