package dev.tandem.cpu.simd;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.model.config.DataType;
import dev.tandem.model.weights.ElementType;
import dev.tandem.model.weights.Tensor;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledOnOs;
import org.junit.jupiter.api.condition.OS;

/** Packing of weights: who touches the memory. */
class MatrixPackerTest {
    private static final long PAGE = 4096;
    private static final int DEPTH = 1024;
    private static final int COLUMNS = 256 << 10;

    /** The calling thread would take 1.5 seconds per gigabyte, and place all pages on its own NUMA node. */
    @Test
    @EnabledOnOs(OS.LINUX)
    void onlyThePackingThreadsTouchAMatrix() throws IOException {
        Tensor large = Tensor.of("w", ElementType.BF16, COLUMNS, DEPTH, MemorySegment.NULL);
        try (Arena arena = Arena.ofConfined()) {
            MatrixPacker packer = new MatrixPacker(arena, (count, body) -> {});
            long before = residentPages();
            PackedMatrix matrix = packer.plain(List.of(large), DataType.BFLOAT16);
            assertThat(matrix.data().byteSize()).isEqualTo(512L << 20);
            assertThat((residentPages() - before) * PAGE).isLessThan(128L << 20);
        }
    }

    private static long residentPages() throws IOException {
        return Long.parseLong(Files.readString(Path.of("/proc/self/statm")).split(" ")[1]);
    }
}
