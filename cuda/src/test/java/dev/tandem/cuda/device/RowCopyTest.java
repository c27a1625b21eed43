package dev.tandem.cuda.device;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static org.assertj.core.api.Assertions.assertThat;

import java.lang.foreign.MemorySegment;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** Copies of rows that lie apart, made by the driver. */
@Tag("gpu")
class RowCopyTest {
    private static final int PITCH = 13;
    private static final int WIDTH = 5;
    private static final int ROWS = 34;
    private static final int FIRST = 3;
    private static final int UNTOUCHED = -7;

    /** With one row, with two and with many. */
    @Test
    void rowsArriveAtTheirPlacesAndNothingBetweenThemChanges() {
        int ints = FIRST + PITCH * ROWS;
        try (Device device = new Device(CudaLibraries.driver().orElseThrow(), 0, 0);
                Stream stream = device.stream("test");
                DeviceBuffer buffer = device.allocate(4L * ints, "rows");
                PinnedBuffer from = device.pinned(4L * ints, "rows");
                PinnedBuffer to = device.pinned(4L * ints, "rows")) {
            MemorySegment.copy(IntStream.range(0, ints).toArray(), 0, from.memory(), JAVA_INT, 0, ints);
            for (int rows : new int[] {1, 2, ROWS}) {
                stream.fill(buffer, UNTOUCHED);
                stream.uploadRows(buffer, 4L * FIRST, from.memory().asSlice(4L * FIRST), 4L * PITCH, 4L * WIDTH, rows);
                stream.download(to.memory(), buffer, 0, 4L * ints);
                stream.synchronise();
                assertThat(to.memory().asSlice(0, 4L * ints).toArray(JAVA_INT))
                        .as("%d rows", rows)
                        .containsExactly(IntStream.range(0, ints)
                                .map(i -> i >= FIRST && (i - FIRST) / PITCH < rows && (i - FIRST) % PITCH < WIDTH
                                        ? i
                                        : UNTOUCHED)
                                .toArray());
            }
        }
    }
}
