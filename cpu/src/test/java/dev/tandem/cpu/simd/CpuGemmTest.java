package dev.tandem.cpu.simd;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.cpu.reference.ReferenceOps;
import dev.tandem.model.config.DataType;
import dev.tandem.model.weights.ElementType;
import dev.tandem.model.weights.Tensor;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.assertj.core.data.Offset;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * GEMM with every storage type of weights against the scalar reference on the unpacked weights; the number of rows
 * changes no bit.
 */
class CpuGemmTest {
    private static final MatrixPacker.Parallel SERIAL =
            (count, body) -> IntStream.range(0, count).forEach(body);

    static Stream<Arguments> shapesAndStorages() {
        return Stream.of("FLOAT32", "BFLOAT16", "FLOAT16", "Q4_0", "Q4_1", "Q8_0")
                .flatMap(storage -> Stream.of(
                        Arguments.of(storage, 32, 7, 1),
                        Arguments.of(storage, 64, 33, 3),
                        Arguments.of(storage, 160, 100, 5),
                        Arguments.of(storage, 288, 64, 13),
                        Arguments.of(storage, 576, 96, 19)));
    }

    @ParameterizedTest
    @MethodSource("shapesAndStorages")
    void matchesTheReference(String storage, int depth, int columns, int rows) {
        long seed = depth * 31L + columns;
        SplittableRandom random = new SplittableRandom(seed);
        try (Arena arena = Arena.ofConfined()) {
            Tensor tensor = tensor(storage, depth, columns, random, arena);
            MatrixPacker packer = new MatrixPacker(arena, SERIAL);
            List<Tensor> tensors = List.of(tensor);
            PackedMatrix matrix = tensor.type().quantised()
                    ? packer.quantised(tensors)
                    : packer.plain(tensors, DataType.valueOf(storage));
            float[][] weights = new float[columns][depth];
            for (int column = 0; column < columns; column++) {
                tensor.row(column, weights[column], 0);
            }
            float[] x = floats(rows * depth, random);
            float[] actual = gemm(matrix, x, rows, arena);
            double[] expected = ReferenceOps.matmul(x, weights, rows);
            int width = Lanes.padded(columns);
            double scale = Arrays.stream(expected).map(Math::abs).max().orElseThrow();
            for (int row = 0; row < rows; row++) {
                for (int column = 0; column < columns; column++) {
                    assertThat((double) actual[row * width + column])
                            .as("seed %d row %d column %d", seed, row, column)
                            .isCloseTo(expected[row * columns + column], Offset.offset(3e-6 * scale));
                }
                float[] alone = gemm(matrix, Arrays.copyOfRange(x, row * depth, (row + 1) * depth), 1, arena);
                assertThat(Arrays.copyOf(alone, columns))
                        .as("row %d alone gives the same bits", row)
                        .isEqualTo(Arrays.copyOfRange(actual, row * width, row * width + columns));
            }
        }
    }

    private static float[] gemm(PackedMatrix matrix, float[] x, int rows, Arena arena) {
        int width = Lanes.padded(matrix.columns());
        float[] out = new float[rows * width];
        long scratch = arena.allocate(PanelGemm.SCRATCH_BYTES, 64).address();
        int depth = matrix.depth();
        float[] groups = new float[rows * depth];
        for (int row = 0; row < GroupKernel.grouped(rows); row += GroupKernel.ROWS) {
            GroupKernel.gather(x, row * depth, depth, depth, groups, row * depth);
        }
        for (int panel = 0; panel < matrix.panels(); panel++) {
            PanelGemm.multiply(matrix, panel, rows, x, 0, depth, groups, 0, out, panel * Lanes.PANEL, width, scratch);
        }
        return out;
    }

    /** A tensor of values that the storage type holds exactly, so that only the arithmetic is compared. */
    private static Tensor tensor(String storage, int depth, int columns, SplittableRandom random, Arena arena) {
        ElementType type = switch (storage) {
            case "FLOAT32" -> ElementType.F32;
            case "BFLOAT16" -> ElementType.BF16;
            case "FLOAT16" -> ElementType.F16;
            default -> ElementType.valueOf(storage);
        };
        MemorySegment data = arena.allocate(type.bytes(depth) * columns, 64);
        if (type.quantised()) {
            for (long at = 0; at < data.byteSize(); at++) {
                data.set(ValueLayout.JAVA_BYTE, at, (byte) random.nextInt());
            }
            for (long block = 0; block < data.byteSize(); block += type.blockBytes()) {
                data.set(ValueLayout.JAVA_SHORT_UNALIGNED, block, half(random));
                if (type == ElementType.Q4_1) {
                    data.set(ValueLayout.JAVA_SHORT_UNALIGNED, block + 2, half(random));
                }
            }
        } else {
            float[] values = floats(depth * columns, random);
            for (int i = 0; i < values.length; i++) {
                switch (type) {
                    case F32 -> data.setAtIndex(ValueLayout.JAVA_FLOAT, i, values[i]);
                    case BF16 -> data.setAtIndex(ValueLayout.JAVA_SHORT, i, Unpack.toBf16(values[i]));
                    case F16 -> data.setAtIndex(ValueLayout.JAVA_SHORT, i, Float.floatToFloat16(values[i]));
                    default -> throw new IllegalStateException();
                }
            }
        }
        return Tensor.of("w", type, columns, depth, data);
    }

    /** A small scale, sometimes a subnormal one. */
    private static short half(SplittableRandom random) {
        float scale = random.nextInt(8) == 0 ? 1e-6f : 0.05f;
        return Float.floatToFloat16((float) (scale * (2 * random.nextDouble() - 1)));
    }

    private static float[] floats(int count, SplittableRandom random) {
        float[] values = new float[count];
        for (int i = 0; i < count; i++) {
            values[i] = (float) (2 * random.nextDouble() - 1);
        }
        return values;
    }
}
