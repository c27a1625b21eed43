package dev.tandem.engine.strategy;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.engine.strategy.StepPredictor.Work;
import org.junit.jupiter.api.Test;

/** Windows of 100 steps, three at most. */
class FillingTest {
    private static final Work WORK = new Work(1, 0);

    private final Filling filling = new Filling(100, 3);

    /**
     * Steps of a second each that are the filling's, of so many, while the host gains {@code more} rows with each
     * beyond {@code rows}.
     */
    private int steps(int all, int rows, int more) {
        int count = 0;
        for (int i = 1; i <= all && filling.lasts(); i++) {
            filling.add(WORK, 1, 1, rows + i * more);
            count++;
        }
        return count;
    }

    @Test
    void aHostThatGetsFullerFillsForSomeWindows() {
        filling.begin(1000);
        assertThat(steps(500, 0, 1)).isEqualTo(300);
        filling.begin(1000);
        assertThat(steps(500, 0, 1)).as("again").isEqualTo(300);
    }

    @Test
    void aHostThatGetsNoFullerDoesNotFill() {
        filling.begin(1000);
        assertThat(steps(100, 0, 1)).isEqualTo(100);
        assertThat(steps(200, 102, 0))
                .as("a window in which it had 102 rows instead of 100")
                .isEqualTo(100);
    }

    @Test
    void aWindowOfLongStepsEndsEarlier() {
        filling.begin(10);
        assertThat(steps(500, 0, 1)).as("of 64 steps, as few as say something").isEqualTo(3 * 64);
    }
}
