package dev.tandem.engine.strategy.select;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Scene;
import dev.tandem.engine.strategy.StepPredictor;
import dev.tandem.engine.strategy.StepPredictor.Work;
import dev.tandem.engine.strategy.TestProfile;
import org.junit.jupiter.api.Test;

/** Requests of 20 prompt tokens, and of 200 output tokens before any has ended. The GPU does one token per second. */
class GpuDemandTest {
    private static final Budget BUDGET = new Budget(600, 20, 600);
    private static final int PROMPT = 20;
    private static final int OUTPUT = 200;

    private final StepPredictor predictor = new StepPredictor(TestProfile.model(), true, 0);
    private final GpuDemand demand = new GpuDemand(predictor);
    private final ThroughputWindow gpuOnly = new ThroughputWindow(2);
    private final Scene scene = new Scene(50, 60, BUDGET).limit(40);
    private final double secondsPerRequest = predictor.promptSeconds(PROMPT) + OUTPUT;

    private void measureGpuOnly() {
        for (int i = 0; i < 2; i++) {
            gpuOnly.add(new Work(0, 1), 1, 1);
        }
    }

    /** A request arrives after so many seconds, and starts at once. */
    private void arrive(double seconds) {
        scene.committer.now(scene.state.now() + (long) (seconds * 1e9));
        Sequence sequence = scene.waiting(PROMPT);
        scene.committer.remove(sequence);
        completed();
    }

    private void completed() {
        demand.completed(scene.state, gpuOnly, 0.01);
    }

    private void arrive(int requests, double demanded) {
        for (int i = 0; i < requests; i++) {
            arrive(secondsPerRequest / demanded);
        }
    }

    @Test
    void demandIsTheWorkThatArrivesOverWhatTheGpuDoesAlone() {
        measureGpuOnly();
        arrive(400, 0.8);
        assertThat(demand.demand()).isCloseTo(0.8, within(0.01));
        assertThat(demand.needsHost()).isFalse();
        arrive(4000, 1.2);
        assertThat(demand.demand()).isCloseTo(1.2, within(0.01));
        assertThat(demand.needsHost()).isTrue();
    }

    @Test
    void theHostIsNeededUntilDemandIsClearlyBelowOne() {
        measureGpuOnly();
        arrive(400, 1.2);
        arrive(4000, 0.97);
        assertThat(demand.needsHost()).as("0.97").isTrue();
        arrive(4000, 0.9);
        assertThat(demand.needsHost()).as("0.9").isFalse();
        arrive(4000, 0.97);
        assertThat(demand.needsHost()).as("0.97 again").isFalse();
    }

    @Test
    void silenceLowersDemand() {
        measureGpuOnly();
        arrive(400, 1.2);
        scene.committer.now(scene.state.now() + (long) (2 * secondsPerRequest * 1e9));
        completed();
        assertThat(demand.demand()).isCloseTo(0.5, within(0.01));
        assertThat(demand.needsHost()).isFalse();
    }

    @Test
    void demandIsUnknownBeforeGpuOnlyIsMeasuredAndRequestsAreFew() {
        arrive(400, 2);
        assertThat(demand.demand()).isNaN();
        measureGpuOnly();
        completed();
        assertThat(demand.demand()).isCloseTo(2, within(0.01));
        GpuDemand fresh = new GpuDemand(predictor);
        Scene few = new Scene(50, 60, BUDGET).limit(40);
        few.waiting(PROMPT);
        fresh.completed(few.state, gpuOnly, 0.01);
        assertThat(fresh.demand()).isNaN();
    }

    @Test
    void aRequestThatHasWaitedAsLongAsRequestsStayOnTheGpuNeedsTheHost() {
        scene.waiting(PROMPT);
        scene.committer.now((long) (0.9 * 0.01 * OUTPUT * 1e9));
        completed();
        assertThat(demand.needsHost()).as("0.9 of the time").isFalse();
        scene.committer.now((long) (1.1 * 0.01 * OUTPUT * 1e9));
        completed();
        assertThat(demand.needsHost()).as("1.1 of the time").isTrue();
    }

    @Test
    void aLongQueueNeedsTheHostWhateverTheMeansSay() {
        measureGpuOnly();
        arrive(400, 0.8);
        for (int i = 0; i < 64; i++) {
            scene.waiting(PROMPT);
        }
        completed();
        assertThat(demand.needsHost()).as("64 requests wait").isFalse();
        scene.waiting(PROMPT);
        completed();
        assertThat(demand.needsHost()).as("65 requests wait").isTrue();
    }
}
