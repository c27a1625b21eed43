package dev.tandem.bench;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.bench.SimulatedMachine.Host;
import dev.tandem.bench.SimulatedMachine.Simulation;
import dev.tandem.engine.loop.EngineLoop;
import dev.tandem.engine.observe.EngineListener;
import dev.tandem.engine.queue.AdmissionQueue;
import dev.tandem.engine.request.LatencyTargets;
import dev.tandem.engine.request.TokenEvent;
import dev.tandem.engine.strategy.select.Strategy;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * The guarded default where requests come from a Poisson source, on a machine on which gpu-only answers about two
 * requests per second and {@code apex} several times as many. Requests want their first token within 20 s.
 */
class OpenLoopTest {
    private static final SimulatedMachine MACHINE = SimulatedMachine.H200_8SM_2REQ;
    private static final Workload WORKLOAD = Workload.parse("synthetic:200/100", 0);
    private static final long SECOND = 1_000_000_000;
    private static final LatencyTargets TARGETS = new LatencyTargets(20 * SECOND, 0);
    private static final int SECONDS = 400;

    /**
     * @param maxWaiting requests that waited at most at a time
     * @param waitingBefore requests that waited at most before the host was used
     * @param onTime requests with their first token within the target
     */
    private record Outcome(int maxWaiting, int waitingBefore, int arrived, int onTime) {}

    private static Outcome run(Strategy strategy, boolean guarded, double perSecond, long seed) {
        Simulation parts = MACHINE.simulation(strategy, guarded, 1, Host.USABLE, TARGETS);
        AdmissionQueue queue = new AdmissionQueue(Integer.MAX_VALUE, parts.clock());
        EngineLoop loop = new EngineLoop(
                parts.config(), queue, parts.scheduler(), parts.executor(), parts.clock(), EngineListener.NONE);
        PoissonSource source = new PoissonSource(WORKLOAD, perSecond, seed);
        int[] counts = new int[2];
        int maxWaiting = 0;
        int waitingBefore = 0;
        boolean usedHost = false;
        while (parts.clock().nanos() < SECONDS * SECOND) {
            source.submit(queue, parts.clock(), arrived -> {
                counts[0]++;
                boolean[] first = {true};
                return event -> {
                    if (event instanceof TokenEvent.Token && first[0]) {
                        first[0] = false;
                        counts[1] += parts.clock().nanos() - arrived <= TARGETS.firstTokenNanos() ? 1 : 0;
                    }
                };
            });
            if (!loop.step() && loop.isIdle()) {
                parts.clock().advance(source.untilNext(parts.clock()));
            }
            int waiting = loop.stats() == null ? 0 : loop.stats().requests().waiting();
            usedHost |= loop.stats() != null && loop.stats().host().used() > 0;
            maxWaiting = Math.max(maxWaiting, waiting);
            waitingBefore = usedHost ? waitingBefore : maxWaiting;
        }
        return new Outcome(maxWaiting, waitingBefore, counts[0], counts[1]);
    }

    /** Half again as many requests as gpu-only can answer, so each second of measuring leaves requests behind. */
    @ParameterizedTest(name = "seed {0}")
    @ValueSource(longs = {1, 2})
    void noBacklogBuildsWhileGpuOnlyIsMeasured(long seed) {
        Outcome guarded = run(Strategy.ADAPTIVE, true, 3, seed);
        assertThat(guarded.waitingBefore()).as("seed %d: %s", seed, guarded).isLessThanOrEqualTo(8);
        assertThat(guarded.onTime()).as("seed %d: %s", seed, guarded).isGreaterThan(guarded.arrived() * 99 / 100);
    }

    /** The load on which the guard must save what it can: gpu-only is late with nearly all of it. */
    @ParameterizedTest(name = "seed {0}")
    @ValueSource(longs = {1, 2})
    void gpuOnlyAloneIsLate(long seed) {
        Outcome alone = run(Strategy.GPU_ONLY, false, 3, seed);
        assertThat(alone.onTime()).as("seed %d: %s", seed, alone).isLessThan(alone.arrived() / 4);
    }

    @ParameterizedTest(name = "seed {0}")
    @ValueSource(longs = {1, 2})
    void whereGpuOnlyAnswersAllRequestsInTimeTheGuardedDefaultDoesToo(long seed) {
        Outcome guarded = run(Strategy.ADAPTIVE, true, 1, seed);
        assertThat(guarded.onTime()).as("seed %d: %s", seed, guarded).isGreaterThan(guarded.arrived() * 99 / 100);
    }
}
