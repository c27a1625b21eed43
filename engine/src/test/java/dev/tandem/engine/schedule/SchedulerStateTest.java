package dev.tandem.engine.schedule;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.engine.request.FinishReason;
import dev.tandem.engine.request.RequestState;
import dev.tandem.engine.request.Sequence;
import org.junit.jupiter.api.Test;

class SchedulerStateTest {
    private final Scene scene = new Scene(50, 50, new Budget(100, 100, 100));

    private void end(FinishReason reason) {
        Sequence sequence = scene.gpu(9); // one token of output
        sequence.state(new RequestState.Finished(reason));
        scene.committer.remove(sequence);
    }

    @Test
    void outputsThatEndedByThemselvesAreExpectedOfOthers() {
        double before = scene.state.meanOutput();
        for (int i = 0; i < 100; i++) {
            end(i % 2 == 0 ? FinishReason.STOP : FinishReason.LENGTH);
        }
        assertThat(scene.state.meanOutput()).isLessThan(before / 2);
        assertThat(scene.state.outputs().remaining(0)).isEqualTo(1);
    }

    @Test
    void abortedOutputsAreNot() {
        double before = scene.state.meanOutput();
        for (int i = 0; i < 100; i++) {
            end(FinishReason.ABORT);
        }
        assertThat(scene.state.meanOutput()).isEqualTo(before);
        assertThat(scene.state.outputs().remaining(0)).as("nothing is known").isZero();
        assertThat(scene.state.ended()).isEqualTo(100);
    }
}
