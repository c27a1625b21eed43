package dev.tandem.cpu.simd;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.model.config.DataType;
import dev.tandem.model.weights.ElementType;
import dev.tandem.model.weights.Tensor;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.List;
import java.util.SplittableRandom;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import java.util.zip.CRC32C;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledOnOs;
import org.junit.jupiter.api.condition.OS;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;

/** Packing of weights: who touches the memory, and what stays of the file. */
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

    /** Else a model would be in memory twice: packed, and as pages of its file. */
    @ParameterizedTest
    @EnumSource(
            value = ElementType.class,
            names = {"F32", "Q4_K"})
    @EnabledOnOs(OS.LINUX)
    void packedPagesOfAFileAreGivenBack(ElementType type, @TempDir Path folder) throws IOException {
        int columns = (int) ((64L << 20) / type.bytes(DEPTH));
        Path file = folder.resolve("weights");
        Files.write(file, new byte[(int) type.bytes(DEPTH) * columns]);
        try (Arena arena = Arena.ofConfined();
                FileChannel channel = FileChannel.open(file)) {
            MemorySegment data = channel.map(FileChannel.MapMode.READ_ONLY, 0, channel.size(), arena);
            List<Tensor> tensors = List.of(Tensor.of("w", type, columns, DEPTH, data));
            MatrixPacker packer = new MatrixPacker(
                    arena, (count, body) -> IntStream.range(0, count).forEach(body));
            PackedMatrix matrix =
                    type.quantised() ? packer.quantised(tensors) : packer.plain(tensors, DataType.BFLOAT16);
            assertThat(matrix.columns()).isEqualTo(columns);
            assertThat(mappedKilobytes(file)).isLessThan(1024);
        }
    }

    /** Packed bits are a format: kernels read them, and a faster packer must not change one. */
    @ParameterizedTest
    @CsvSource({
        "Q4_0, 38a9068e, f9d30399, 4d2a179f",
        "Q4_1, 03267186, a1e86a5d, 7e83b72a",
        "Q5_0, b6831514, 41fd5b4f, b93a08ad",
        "Q5_1, 729ec208, 4f85fbd2, f7d9bae8",
        "Q8_0, 850197b3, 5973b119, 018e79c0",
        "Q4_K, c0a3502c, 334c4727, 089c3868",
        "Q5_K, 07b7a7bf, ca28f771, 29503d4a",
        "Q6_K, 1cf90b6d, 04b85e9e, f2cfad1c"
    })
    void packedBitsHaveTheirChecksum(ElementType type, String bits128, String bits256, String bits512) {
        int depth = 768;
        SplittableRandom random = new SplittableRandom(7);
        List<Tensor> tensors = Stream.of(33, 10)
                .map(columns -> {
                    byte[] blocks = new byte[(int) type.bytes(depth) * columns];
                    random.nextBytes(blocks);
                    return Tensor.of("w", type, columns, depth, MemorySegment.ofArray(blocks));
                })
                .toList();
        try (Arena arena = Arena.ofConfined()) {
            PackedMatrix matrix = new MatrixPacker(
                            arena, (count, body) -> IntStream.range(0, count).forEach(body))
                    .quantised(tensors);
            CRC32C checksum = new CRC32C();
            checksum.update(matrix.data().asByteBuffer());
            String expected = switch (Lanes.bits()) {
                case 128 -> bits128;
                case 256 -> bits256;
                case 512 -> bits512;
                default -> throw new AssertionError("no checksums for vectors of " + Lanes.bits() + " bits");
            };
            assertThat(HexFormat.of().toHexDigits((int) checksum.getValue())).isEqualTo(expected);
        }
    }

    /** How much of a mapped file is in this process's memory. */
    private static long mappedKilobytes(Path file) throws IOException {
        List<String> lines = Files.readAllLines(Path.of("/proc/self/smaps"));
        int mapping = 0;
        while (!lines.get(mapping).endsWith(file.toString())) {
            mapping++;
        }
        String resident = lines.subList(mapping, lines.size()).stream()
                .filter(line -> line.startsWith("Rss:"))
                .findFirst()
                .orElseThrow();
        return Long.parseLong(resident.replaceAll("\\D", ""));
    }

    private static long residentPages() throws IOException {
        return Long.parseLong(Files.readString(Path.of("/proc/self/statm")).split(" ")[1]);
    }
}
