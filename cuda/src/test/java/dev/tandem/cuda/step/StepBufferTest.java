package dev.tandem.cuda.step;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.cuda.device.Device;
import dev.tandem.cuda.device.FakeDriver;
import dev.tandem.cuda.device.Stream;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.engine.sampling.TokenSampler;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.List;
import java.util.Map;
import java.util.Set;
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

    @Test
    void drawsAreUploadedAloneWhenTheStepSamplesLater() {
        FakeDriver fake = new FakeDriver();
        Device device = new Device(fake.driver(), 0, 0);
        Stream stream = device.stream("test");
        StepBuffer inputs = new StepBuffer(device, 4, 4, 2, 4, 16, 16, "test");
        inputs.clear();
        inputs.upload(stream);
        inputs.uploadDraws(stream);
        assertThat(fake.uploads).as("no row is drawn").hasSize(1);
        SamplingParams params = SamplingParams.builder()
                .temperature(0.5)
                .topK(7)
                .logitBias(Map.of(9, 1f))
                .build();
        TokenSampler sampler = new TokenSampler(params, new int[] {1}, Set.of(), 0);
        inputs.draw(3, sampler.draw(inputs.adjustmentRoom()).orElseThrow(), sampler.adjustments());
        inputs.uploadDraws(stream);
        assertThat(fake.uploads).as("draws, adjustments").hasSize(3);
        assertThat(fake.uploads.get(1) - fake.uploads.get(0)).isEqualTo(inputs.draws() - inputs.header());
        assertThat(fake.uploads.get(2) - fake.uploads.get(0)).isEqualTo(inputs.adjusted() - inputs.header());
        assertThat(ints(fake.uploads.get(1), 4, 2)).as("top-k and row").containsExactly(7, 3);
        assertThat(ints(fake.uploads.get(2), 0, 3)).as("row, first and count").containsExactly(3, 0, 1);
    }

    /** Of 100 tokens, a window of 33 begins at token 67, which is in the fifth block. */
    @Test
    void rowsWithinAWindowBeginAtTheFirstBlockThatTheySee() {
        FakeDriver fake = new FakeDriver();
        Device device = new Device(fake.driver(), 0, 0);
        StepBuffer inputs = new StepBuffer(device, 4, 4, 2, 4, 64, 16, "test");
        inputs.clear();
        inputs.decode(100, 7, 2, 33);
        inputs.decode(20, 30, 2, 33);
        inputs.spread(4, 1, 2, 0);
        inputs.upload(device.stream("test"));
        assertThat(ints(fake.uploads.getFirst(), 0, 4)).as("all tokens").containsExactly(2, 22, 4, 1);
        assertThat(ints(fake.uploads.getFirst(), 16, 4)).as("within the window").containsExactly(2, 10, 4, 0);
        assertThat(ints(fake.uploads.getLast(), 0, 8)).containsExactly(0, 36, 11, 3, 6, 20, 30, 2);
        assertThat(inputs.windowedHeader() - inputs.header()).isEqualTo(64);
    }

    private static int[] ints(long address, int from, int count) {
        return MemorySegment.ofAddress(address + 4L * from)
                .reinterpret(4L * count)
                .toArray(ValueLayout.JAVA_INT);
    }
}
