package dev.tandem.cpu.simd;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.data.Offset.offset;

import dev.tandem.model.config.DataType;
import dev.tandem.model.weights.ElementType;
import dev.tandem.model.weights.Tensor;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.SplittableRandom;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledOnOs;
import org.junit.jupiter.api.condition.OS;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Packing of weights: who touches the memory, and what types without a kernel of their own become. */
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

    /** Compared with the same weights unpacked to fp32. */
    @ParameterizedTest
    @EnumSource(
            value = ElementType.class,
            names = {"Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K"})
    void unpackedBlocksTakeTwoBytesPerWeightWithinBf16Rounding(ElementType type) {
        SplittableRandom random = new SplittableRandom(4);
        int depth = 512;
        int columns = 64;
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment blocks = arena.allocate(type.bytes(depth) * columns, 64);
            for (long at = 0; at < blocks.byteSize(); at++) {
                blocks.set(ValueLayout.JAVA_BYTE, at, (byte) random.nextInt());
            }
            for (long block = 0; block < blocks.byteSize(); block += type.blockBytes()) {
                // Q6_K has its scale last
                for (long scale : type == ElementType.Q6_K ? new long[] {208} : new long[] {0, 2}) {
                    blocks.set(ValueLayout.JAVA_SHORT_UNALIGNED, block + scale, Float.floatToFloat16((float)
                            (0.01 + 0.01 * random.nextDouble())));
                }
            }
            List<Tensor> tensors = List.of(Tensor.of("w", type, columns, depth, blocks));
            assertThat(MatrixPacker.keepsBlocks(tensors)).isFalse();
            MatrixPacker packer = new MatrixPacker(
                    arena, (count, body) -> IntStream.range(0, count).forEach(body));
            float[] x = new float[depth];
            for (int i = 0; i < depth; i++) {
                x[i] = (float) (2 * random.nextDouble() - 1);
            }
            PackedMatrix half = packer.plain(tensors, DataType.BFLOAT16);
            assertThat(half.data().byteSize()).isEqualTo(2L * depth * columns);
            double[] expected = gemv(packer.plain(tensors, DataType.FLOAT32), x, arena);
            double[] actual = gemv(half, x, arena);
            float[] weights = new float[depth];
            for (int column = 0; column < columns; column++) {
                tensors.getFirst().row(column, weights, 0);
                double bound = 1e-5;
                for (int i = 0; i < depth; i++) {
                    bound += Math.abs(weights[i] * x[i]) * 0x1p-9;
                }
                assertThat(actual[column]).as("column %d", column).isCloseTo(expected[column], offset(bound));
            }
            assertThat(actual).isNotEqualTo(expected);
        }
    }

    private static double[] gemv(PackedMatrix matrix, float[] x, Arena arena) {
        float[] out = new float[Lanes.padded(matrix.columns())];
        long scratch = arena.allocate(PanelGemm.SCRATCH_BYTES, 64).address();
        for (int panel = 0; panel < matrix.panels(); panel++) {
            PanelGemm.multiply(
                    matrix, panel, 1, x, 0, x.length, new float[0], 0, out, panel * Lanes.PANEL, out.length, scratch);
        }
        return IntStream.range(0, matrix.columns()).mapToDouble(i -> out[i]).toArray();
    }

    private static long residentPages() throws IOException {
        return Long.parseLong(Files.readString(Path.of("/proc/self/statm")).split(" ")[1]);
    }
}
