package dev.tandem.engine.strategy.select;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.tandem.engine.strategy.StepPredictor.Work;
import org.junit.jupiter.api.Test;

/** Steps of gpu-only decode 10 tokens of 1 s each; prompts of 4 s in long steps add 1 s to them. */
class ThroughputWindowTest {
    private static ThroughputWindow window(int steps, int withPrompts) {
        ThroughputWindow window = new ThroughputWindow(steps);
        for (int i = 0; i < steps; i++) {
            boolean prompts = i < withPrompts;
            window.add(new Work(prompts ? 4 : 0, 10), 1, prompts ? 1 : 0, prompts ? 11 : 10);
        }
        return window;
    }

    @Test
    void aPromptCostsWhatItAddsToStepsOfGpuOnly() {
        assertThat(window(8, 8).promptCost()).isCloseTo(0.25, within(1e-9));
        assertThat(window(8, 2).promptCost()).isCloseTo(0.25, within(1e-9));
    }

    @Test
    void windowsWithMoreAndFewerPromptsHaveEqualRates() {
        double cost = window(8, 4).promptCost();
        assertThat(window(8, 0).rate(1, cost)).isCloseTo(1, within(1e-9));
        assertThat(window(8, 2).rate(1, cost)).isCloseTo(1, within(1e-9));
        assertThat(window(8, 8).rate(1, cost)).isCloseTo(1, within(1e-9));
    }

    @Test
    void aPromptCostsAtMostWhatItDoesInLongSteps() {
        ThroughputWindow window = new ThroughputWindow(2);
        window.add(new Work(4, 10), 1, 5, 15);
        assertThat(window.promptCost()).isEqualTo(1);
    }

    @Test
    void withoutPromptsTheyCostWhatTheyDoInLongSteps() {
        assertThat(window(8, 0).promptCost()).isEqualTo(1);
        ThroughputWindow cleared = window(8, 8);
        cleared.clear();
        assertThat(cleared.promptCost()).isEqualTo(1);
        cleared.add(new Work(4, 10), 1, 2, 12);
        assertThat(cleared.promptCost()).isEqualTo(0.5);
    }
}
