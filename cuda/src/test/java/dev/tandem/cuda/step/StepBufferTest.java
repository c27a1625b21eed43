package dev.tandem.cuda.step;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.cuda.device.Device;
import dev.tandem.cuda.device.FakeDriver;
import dev.tandem.cuda.device.Stream;
import java.util.List;
import org.junit.jupiter.api.Test;

class StepBufferTest {
    @Test
    void successiveStepsUseAlternateHalvesOfTheInputBuffer() {
        FakeDriver fake = new FakeDriver();
        Device device = new Device(fake.driver(), 0, 0);
        Stream stream = device.stream("test");
        StepBuffer inputs = new StepBuffer(device, 4, 4, 2, 4, 16, 16, "test");
        for (int step = 0; step < 4; step++) {
            inputs.clear();
            inputs.upload(stream);
        }
        List<Long> from = fake.uploads;
        assertThat(from).hasSize(4);
        assertThat(from.get(0)).isNotEqualTo(from.get(1)).isEqualTo(from.get(2));
        assertThat(from.get(1)).isEqualTo(from.get(3));
    }
}
