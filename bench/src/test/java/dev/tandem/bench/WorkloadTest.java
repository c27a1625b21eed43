package dev.tandem.bench;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import dev.tandem.bench.SimulatedMachine.Host;
import dev.tandem.bench.Workload.Lengths;
import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.engine.kv.AttentionSpan;
import dev.tandem.engine.request.LatencyTargets;
import dev.tandem.engine.strategy.select.Strategy;
import java.util.List;
import java.util.function.Predicate;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class WorkloadTest {
    private static final int COUNT = 20_000;
    /** Five standard deviations of a fraction of {@link #COUNT} draws. */
    private static final double TOLERANCE = 5 * 0.5 / Math.sqrt(COUNT);

    private static final Workload TWO = new Workload("two", List.of(new Lengths(100, 10), new Lengths(200, 30)));

    private static double fraction(List<Lengths> requests, Predicate<Lengths> which) {
        return requests.stream().filter(which).count() / (double) requests.size();
    }

    @ParameterizedTest
    @ValueSource(longs = {0, 1, 2})
    void requestsInProgressAreDrawnByTheirOutput(long seed) {
        List<Lengths> drawn = TWO.inProgress(COUNT, seed);
        assertThat(fraction(drawn, request -> request.prompt() >= 200))
                .as("of the longer request, seed %d", seed)
                .isCloseTo(30 / 40.0, within(TOLERANCE));
    }

    @ParameterizedTest
    @ValueSource(longs = {0, 1, 2})
    void progressIsUniformAndKeepsTheSumOfTokens(long seed) {
        List<Lengths> drawn = TWO.inProgress(COUNT, seed);
        assertThat(drawn)
                .allSatisfy(request -> assertThat(request.prompt() + request.output())
                        .as("seed %d", seed)
                        .isIn(110, 230));
        List<Lengths> longer =
                drawn.stream().filter(request -> request.prompt() >= 200).toList();
        assertThat(longer).extracting(Lengths::output).contains(1, 30).allMatch(left -> left >= 1 && left <= 30);
        assertThat(fraction(longer, request -> request.output() <= 15))
                .as("of the longer request beyond its middle, seed %d", seed)
                .isCloseTo(0.5, within(1.2 * TOLERANCE));
    }

    /** Of 100 to 110 and of 200 to 230 tokens, one layer of two holds 60. */
    @Test
    void layersWithAWindowHoldNoMoreThanThat() {
        assertThat(TWO.meanTokensHeld()).isEqualTo(160);
        assertThat(TWO.meanTokensHeld(new AttentionSpan(List.of(60, 0)))).isEqualTo((160 + 60) / 2.0);
    }

    @Test
    void aTurnRepeatsAllBeforeItAndAddsItsOwn() {
        Workload workload = Workload.parse("prefix:100/20/5/3", 0);
        assertThat(workload.turns()).isEqualTo(3);
        assertThat(workload.turn(7, 0)).isEqualTo(new Lengths(120, 5));
        assertThat(workload.turn(7, 2)).isEqualTo(new Lengths(170, 5));
        assertThat(Workload.parse("prefix:100/20/5", 0).turns()).isEqualTo(1);
    }

    @Test
    void turnsNeedALoadWithArrivals() {
        assertThatThrownBy(() -> Workload.parse("prefix:100/20/5/3", 0).ofSingleRequests("add --request-rate"))
                .isInstanceOf(ConfigurationException.class)
                .hasMessage("--workload prefix:100/20/5/3 has conversations of 3 turns, which need requests that arrive"
                        + " at a rate; add --request-rate");
        assertThatThrownBy(() -> Workload.parse("prefix:100/20/5/0", 0))
                .isInstanceOf(ConfigurationException.class)
                .hasMessageContaining("at least 1 turn");
    }

    /** In a stationary loop a request ends each 20 steps of each place, from the first step on. */
    @ParameterizedTest
    @ValueSource(longs = {0, 1, 2})
    void requestsEndAtTheirSteadyRateFromTheStart(long seed) {
        for (int steps : new int[] {1, 5, 10}) {
            assertThat(fraction(TWO.inProgress(COUNT, seed), request -> request.output() <= steps))
                    .as("ended after %d steps, seed %d", steps, seed)
                    .isCloseTo(steps / 20.0, within(TOLERANCE));
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"osc", "reasoning", "synthetic:1/1", "azure-conv"})
    void everyRequestInProgressHasWorkLeft(String name) {
        assertThat(Workload.parse(name, 0).inProgress(1_000, 7))
                .hasSize(1_000)
                .allSatisfy(request -> assertThat(request.output()).as("seed 7").isPositive());
    }

    /** A request of this workload takes more than the 4 simulated seconds: from an empty engine none would end. */
    @Test
    void aWindowShorterThanARequestMeasuresEnds() {
        var parts = SimulatedMachine.H200_26K.simulation(
                Strategy.GPU_ONLY, false, 1, Host.USABLE, new LatencyTargets(0, 0));
        var run = new SimulatedRun(
                parts.config(),
                parts.scheduler(),
                parts.executor(),
                parts.clock(),
                Workload.parse("reasoning", parts.config().seed()));
        assertThat((Integer) run.steady(FirstRequests.allInProgress(16), 1, 3).get("completed"))
                .isBetween(1, 8);
    }
}
