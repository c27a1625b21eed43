package dev.tandem.engine.observe;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.engine.observe.Timeline.Kind;
import java.io.IOException;
import org.junit.jupiter.api.Test;

class TimelineTest {
    @Test
    void theLastEventsOfEachLaneAreKept() throws IOException {
        Timeline timeline = new Timeline(4);
        Timeline.Lane steps = timeline.lane("GPU");
        Timeline.Lane worker = timeline.lane("attention 0");
        for (int step = 0; step < 7; step++) {
            steps.add(Kind.GPU_STEP, step * 1_000, step * 1_000 + 500, step);
        }
        worker.add(Kind.CPU_ATTENTION, 1_500, 4_000, Timeline.layerAndSequence(31, 7_000_000_000L));
        StringBuilder text = new StringBuilder();
        timeline.write(text);
        assertThat(text.toString().lines().filter(line -> line.contains("gpu step")))
                .hasSize(4);
        assertThat(text)
                .contains("\"args\":{\"name\":\"GPU\"}")
                .contains("{\"ph\":\"X\",\"name\":\"gpu step\",\"pid\":1,\"tid\":0,"
                        + "\"ts\":6.000,\"dur\":0.500,\"args\":{\"step\":6}}")
                .doesNotContain("\"step\":2}")
                .contains("\"tid\":1,\"ts\":1.500,\"dur\":2.500,\"args\":{\"layer\":31,\"sequence\":7000000000}}");
        assertThat(text.chars().filter(c -> c == '{').count())
                .isEqualTo(text.chars().filter(c -> c == '}').count());
    }

    @Test
    void anEventWhoseSlotIsBeingOverwrittenIsDropped() throws IOException {
        Timeline timeline = new Timeline(7); // eight slots
        Timeline.Lane lane = timeline.lane("GPU");
        for (int step = 0; step < 7; step++) {
            lane.add(Kind.GPU_STEP, step, step, step);
        }
        // while the first event is written, two more follow, and the next one would take the second event's slot
        StringBuilder text = new StringBuilder();
        Appendable out = new Appendable() {
            @Override
            public Appendable append(CharSequence part) {
                text.append(part);
                if (part.toString().contains("\"step\":0}")) {
                    lane.add(Kind.GPU_STEP, 7, 7, 7);
                    lane.add(Kind.GPU_STEP, 8, 8, 8);
                }
                return this;
            }

            @Override
            public Appendable append(CharSequence part, int from, int to) {
                return append(part.subSequence(from, to));
            }

            @Override
            public Appendable append(char part) {
                return append(String.valueOf(part));
            }
        };
        timeline.write(out);
        assertThat(text).contains("\"step\":0}").doesNotContain("\"step\":1}").contains("\"step\":2}");
    }

    @Test
    void aTimelineWithoutCapacityKeepsNothing() throws IOException {
        Timeline.OFF.lane("GPU").add(Kind.PLAN, 1, 2, 3);
        StringBuilder text = new StringBuilder();
        Timeline.OFF.write(text);
        assertThat(text.toString()).isEqualTo("{\"traceEvents\":[]}\n");
    }
}
