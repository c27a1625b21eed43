package dev.tandem.engine.schedule;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;

/** What the decision log says of a step. */
class DecisionTest {
    @Test
    void aStepThatWaitedForTheCpuSaysHowLong() {
        Decision decision = new Decision();
        decision.because("%d reasons", 2);
        decision.planned(3, Shape.PIPELINE, 0.01, 0, 0);
        decision.achieved(0.012, 0);
        assertThat(decision).hasToString("step 3: asymmetric, predicted 10.000 ms, took 12.000 ms: 2 reasons");
        decision.achieved(0.012, 0.0015);
        assertThat(decision)
                .hasToString("step 3: asymmetric, predicted 10.000 ms, took 12.000 ms, waited 1.500 ms for the CPU:"
                        + " 2 reasons");
    }
}
