package dev.tandem.cuda.step;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.cuda.device.Device;
import dev.tandem.cuda.device.FakeDriver;
import dev.tandem.cuda.device.Stream;
import dev.tandem.cuda.kernels.GpuRig;
import dev.tandem.engine.kv.KvLayout;
import dev.tandem.engine.kv.KvView;
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
        StepBuffer inputs = new StepBuffer(device, 4, 4, 2, 4, GpuRig.tables(16), 16, "test");
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
        StepBuffer inputs = new StepBuffer(device, 4, 4, 2, 4, GpuRig.tables(16), 16, "test");
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
        StepBuffer inputs = new StepBuffer(device, 4, 4, 2, 4, GpuRig.tables(64), 16, "test");
        inputs.clear();
        inputs.decode(100, new StepBuffer.Table(7, 7), 2, 33);
        inputs.decode(20, new StepBuffer.Table(30, 30), 2, 33);
        inputs.spread(4, 1, 2, 0);
        inputs.upload(device.stream("test"));
        assertThat(ints(fake.uploads.getFirst(), 0, 4)).as("all tokens").containsExactly(2, 22, 4, 1);
        assertThat(ints(fake.uploads.getFirst(), 16, 4)).as("within the window").containsExactly(2, 10, 4, 0);
        assertThat(ints(fake.uploads.getLast(), 0, 8)).containsExactly(0, 36, 11, 3, 6, 20, 30, 2);
        assertThat(inputs.windowedHeader() - inputs.header()).isEqualTo(64);
    }

    /** A group of layer 1, which has no window, and one each of the layers 0 and 2, which have one of 20 tokens. */
    @Test
    void everyGroupHasKvSlotsAndBlockTablesOfItsOwn() {
        FakeDriver fake = new FakeDriver();
        Device device = new Device(fake.driver(), 0, 0);
        KvLayout layout = KvLayout.of(List.of(20, 0, 20), 64, 64);
        TableSizes sizes = new TableSizes(layout, List.of(12, 6));
        StepBuffer inputs = new StepBuffer(device, 8, 4, 2, 4, sizes, 16, "test");
        inputs.clear();
        // 100 tokens are computed, of which windowed layers hold those from 64 on
        List<KvView> decode = List.of(
                KvView.of(10, 11, 12, 13, 14, 15, 16),
                new KvView(4, new int[] {24, 25, 26}),
                new KvView(4, new int[] {34, 35, 36}));
        StepBuffer.Table first = inputs.table(decode, 7);
        inputs.row(0, 1, 100, decode);
        inputs.decode(101, first, 2, 20);
        List<KvView> prompt = List.of(KvView.of(40, 41), KvView.of(50, 51), KvView.of(60, 61));
        StepBuffer.Table second = inputs.table(prompt, 2);
        inputs.row(1, 1, 15, prompt);
        inputs.row(2, 1, 16, prompt);
        inputs.row(3, 1, 0);
        inputs.tile(1, 2, 15, second);
        inputs.spread(4, 1, 2, 0);
        inputs.upload(device.stream("test"));

        assertThat(first).isEqualTo(new StepBuffer.Table(0, -4));
        assertThat(second).isEqualTo(new StepBuffer.Table(7, 3));
        long front = fake.uploads.getFirst();
        int[][] slots = {
            {16 * 16 + 4, 40 * 16 + 15, 41 * 16, -1},
            {26 * 16 + 4, 50 * 16 + 15, 51 * 16, -1},
            {36 * 16 + 4, 60 * 16 + 15, 61 * 16, -1}
        };
        int[][] tables = {{10, 11, 12, 13, 14, 15, 16, 40, 41}, {24, 25, 26, 50, 51}, {34, 35, 36, 60, 61}};
        for (int group = 0; group < 3; group++) {
            assertThat(ints(front, (int) (inputs.slots(group) - inputs.header()) / 4, 4))
                    .as("slots of group %d", group)
                    .containsExactly(slots[group]);
            assertThat(fake.uploads.get(2 + group) - front).isEqualTo(inputs.tables(group) - inputs.header());
            assertThat(ints(fake.uploads.get(2 + group), 0, tables[group].length))
                    .as("tables of group %d", group)
                    .containsExactly(tables[group]);
        }
        long shift = inputs.header() - front; // from pinned to GPU memory
        assertThat(fake.uploadedRows)
                .as("both windowed groups in one copy")
                .containsExactly(new FakeDriver.Rows(
                        fake.uploads.get(3),
                        fake.uploads.get(3) + shift,
                        4 * sizes.max().get(1),
                        4 * 5,
                        2));
        assertThat(ints(front, (int) (inputs.tiles() - inputs.header()) / 4, 4)).containsExactly(1, 2, 15, 7);
        assertThat(ints(front, (int) (inputs.windowedTiles() - inputs.header()) / 4, 4))
                .containsExactly(1, 2, 15, 3);
        // a window of 20 begins at token 81, in the sixth block, which is the second that these layers hold
        assertThat(ints(fake.uploads.get(1), 0, 4)).as("within the window").containsExactly(0, 21, 1, 2);
    }

    @Test
    void moreBlockNumbersThanAGroupHasRoomForAreAnError() {
        Device device = new Device(new FakeDriver().driver(), 0, 0);
        TableSizes sizes = new TableSizes(KvLayout.of(List.of(20, 0, 20), 64, 64), List.of(12, 2));
        StepBuffer inputs = new StepBuffer(device, 8, 4, 2, 4, sizes, 16, "test");
        List<KvView> kv = List.of(KvView.of(1, 2), KvView.of(3, 4), KvView.of(5, 6));
        inputs.table(kv, 2);
        assertThatThrownBy(() -> inputs.table(kv, 2))
                .isInstanceOf(IllegalStateException.class)
                .hasMessageContaining("more than 2 entries");
    }

    private static int[] ints(long address, int from, int count) {
        return MemorySegment.ofAddress(address + 4L * from)
                .reinterpret(4L * count)
                .toArray(ValueLayout.JAVA_INT);
    }
}
