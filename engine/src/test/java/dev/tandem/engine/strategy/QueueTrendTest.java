package dev.tandem.engine.strategy;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Scene;
import java.util.ArrayDeque;
import org.junit.jupiter.api.Test;

class QueueTrendTest {
    private static final int WINDOW = 10;

    private final QueueTrend trend = new QueueTrend(WINDOW);
    private final Scene scene = new Scene(50, 60, new Budget(600, 20, 600)).limit(40);
    private final ArrayDeque<Sequence> waiting = new ArrayDeque<>();

    private void arrive(int requests) {
        for (int i = 0; i < requests; i++) {
            waiting.add(scene.waiting(2));
        }
        trend.completed(scene.state);
    }

    /** Requests leave the queue in one step. */
    private void start(int requests) {
        for (int i = 0; i < requests; i++) {
            scene.committer.remove(waiting.remove());
        }
        trend.completed(scene.state);
    }

    @Test
    void aQueueThatShrinksLastsAsLongAsItTakesToEnd() {
        arrive(100);
        for (int step = 0; step < WINDOW; step++) {
            start(2);
        }
        assertThat(trend.lasts(scene.state)).as("80 wait, and 2 fewer per step").isTrue();
        for (int step = 0; step < WINDOW; step++) {
            start(2);
        }
        start(20);
        assertThat(trend.lasts(scene.state))
                .as("40 wait, and 2 or more fewer per step")
                .isFalse();
        arrive(60);
        assertThat(trend.lasts(scene.state)).as("as many wait as before").isTrue();
    }

    @Test
    void inTheFirstWindowTheQueueLastsAsLongAsItsOutputsTake() {
        // each has at most 38 outputs, and two sequences have one per step
        scene.gpu(2);
        scene.gpu(2);
        arrive(1);
        assertThat(trend.lasts(scene.state)).as("19 steps").isFalse();
        arrive(1);
        assertThat(trend.lasts(scene.state)).as("38 steps").isTrue();
    }
}
