package dev.tandem.cpu.simd;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

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
 * changes no bit. Quantised types have the bits of {@link ScalarGroupGemm}, with fp32 and with int8 activations.
 */
class CpuGemmTest {
    private static final MatrixPacker.Parallel SERIAL =
            (count, body) -> IntStream.range(0, count).forEach(body);

    /** One row of more than a thousand columns takes several calls of the int8 kernel. */
    static Stream<Arguments> shapesAndStorages() {
        return Stream.concat(
                Stream.of("FLOAT32", "BFLOAT16", "FLOAT16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0")
                        .flatMap(storage -> Stream.of(
                                Arguments.of(storage, 32, 7, 1),
                                Arguments.of(storage, 64, 1100, 1),
                                Arguments.of(storage, 64, 33, 3),
                                Arguments.of(storage, 160, 100, 5),
                                Arguments.of(storage, 288, 64, 13),
                                Arguments.of(storage, 576, 96, 19))),
                Stream.of("Q4_K", "Q5_K", "Q6_K")
                        .flatMap(storage -> Stream.of(
                                Arguments.of(storage, 256, 7, 1),
                                Arguments.of(storage, 256, 1100, 1),
                                Arguments.of(storage, 512, 33, 3),
                                Arguments.of(storage, 256, 100, 5),
                                Arguments.of(storage, 768, 64, 13),
                                Arguments.of(storage, 1024, 96, 19))));
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
            float[] actual = gemm(matrix, x, rows, ActivationPrecision.EXACT, arena);
            double[] expected = ReferenceOps.matmul(x, weights, rows);
            int width = Lanes.padded(columns);
            for (int row = 0; row < rows; row++) {
                for (int column = 0; column < columns; column++) {
                    double size = 0;
                    for (int k = 0; k < depth; k++) {
                        size += Math.abs(x[row * depth + k] * weights[column][k]);
                    }
                    assertThat((double) actual[row * width + column])
                            .as("seed %d row %d column %d", seed, row, column)
                            .isCloseTo(expected[row * columns + column], Offset.offset(1e-6 * size));
                }
                float[] alone = alone(matrix, x, row, ActivationPrecision.EXACT, arena);
                assertThat(Arrays.copyOf(alone, columns))
                        .as("row %d alone gives the same bits", row)
                        .isEqualTo(Arrays.copyOfRange(actual, row * width, row * width + columns));
            }
        }
    }

    /** Packing changes no weight, and the kernels sum in the order of the scalar twin. */
    @ParameterizedTest
    @MethodSource("shapesAndStorages")
    void quantisedTypesHaveTheBitsOfTheScalarTwin(String storage, int depth, int columns, int rows) {
        long seed = depth * 37L + columns;
        SplittableRandom random = new SplittableRandom(seed);
        try (Arena arena = Arena.ofConfined()) {
            Tensor tensor = tensor(storage, depth, columns, random, arena);
            if (!tensor.type().quantised()) {
                return;
            }
            PackedMatrix.Quantised matrix = new MatrixPacker(arena, SERIAL).quantised(List.of(tensor));
            ScalarGroupGemm twin = new ScalarGroupGemm(matrix);
            float[] weights = new float[depth];
            for (int column = 0; column < columns; column++) {
                tensor.row(column, weights, 0);
                for (int k = 0; k < depth; k++) {
                    assertThat(twin.weight(k, column))
                            .as("seed %d input %d column %d", seed, k, column)
                            .isEqualTo(weights[k]);
                }
            }
            float[] x = floats(rows * depth, random);
            float[] actual = gemm(matrix, x, rows, ActivationPrecision.EXACT, arena);
            float[] expected = twin.multiply(x, rows);
            for (int row = 0; row < rows; row++) {
                int from = row * Lanes.padded(columns);
                assertThat(Arrays.copyOfRange(actual, from, from + columns))
                        .as("seed %d row %d", seed, row)
                        .isEqualTo(Arrays.copyOfRange(expected, row * columns, (row + 1) * columns));
            }
        }
    }

    /** Int8 activations of several sizes, with groups of zeros, of tiny values and of values that are not finite. */
    @ParameterizedTest
    @MethodSource("shapesAndStorages")
    void int8ActivationsHaveTheBitsOfTheScalarTwin(String storage, int depth, int columns, int rows) {
        assumeTrue(Int8Kernel.find().isPresent(), Int8Kernel::obstacle);
        long seed = depth * 41L + columns;
        SplittableRandom random = new SplittableRandom(seed);
        try (Arena arena = Arena.ofConfined()) {
            Tensor tensor = tensor(storage, depth, columns, random, arena);
            if (!tensor.type().quantised()) {
                return;
            }
            PackedMatrix.Quantised matrix = new MatrixPacker(arena, SERIAL).quantised(List.of(tensor));
            float[] x = floats(rows * depth, random);
            for (int i = 0; i < x.length; i++) {
                x[i] *= (float) Math.scalb(1.0, (i / 16) % 9 - 4);
            }
            Arrays.fill(x, 0, 16, 0);
            Arrays.fill(x, 16, 32, 1e-35f);
            if (rows > 3) {
                x[depth + 5] = Float.NaN;
                x[2 * depth + 20] = Float.NEGATIVE_INFINITY;
            }
            float[] actual = gemm(matrix, x, rows, ActivationPrecision.INT8, arena);
            float[] expected = new ScalarGroupGemm(matrix).multiplyInt8(x, rows);
            for (int row = 0; row < rows; row++) {
                int from = row * Lanes.padded(columns);
                float[] one = Arrays.copyOfRange(actual, from, from + columns);
                assertThat(one)
                        .as("seed %d row %d", seed, row)
                        .isEqualTo(Arrays.copyOfRange(expected, row * columns, (row + 1) * columns));
                assertThat(Arrays.copyOf(alone(matrix, x, row, ActivationPrecision.INT8, arena), columns))
                        .as("row %d alone", row)
                        .isEqualTo(one);
                boolean finite = rows <= 3 || row < 1 || row > 2;
                assertThat(Float.isNaN(one[0])).as("row %d", row).isEqualTo(!finite);
            }
        }
    }

    private static float[] alone(PackedMatrix matrix, float[] x, int row, ActivationPrecision precision, Arena arena) {
        float[] one = Arrays.copyOfRange(x, row * matrix.depth(), (row + 1) * matrix.depth());
        return gemm(matrix, one, 1, precision, arena);
    }

    private static float[] gemm(PackedMatrix matrix, float[] x, int rows, ActivationPrecision precision, Arena arena) {
        int width = Lanes.padded(matrix.columns());
        float[] out = new float[rows * width];
        long scratch = arena.allocate(PanelGemm.SCRATCH_BYTES, 64).address();
        GemmInput input = new GemmInput(precision);
        input.begin(matrix, rows, x, matrix.depth());
        for (int part = 0; part < input.parts(); part++) {
            input.arrange(part);
        }
        if (!PanelGemm.needsTile(matrix, input, rows)) {
            PanelGemm.multiply(matrix, 0, matrix.panels(), input, 0, rows, out, 0, width, scratch);
            return out;
        }
        for (int panel = 0; panel < matrix.panels(); panel++) {
            float[] tile = new float[rows * Lanes.PANEL];
            PanelGemm.multiply(matrix, panel, 1, input, 0, rows, tile, 0, Lanes.PANEL, scratch);
            for (int row = 0; row < rows; row++) {
                System.arraycopy(tile, row * Lanes.PANEL, out, row * width + panel * Lanes.PANEL, Lanes.PANEL);
            }
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
                for (int half : halves(type)) {
                    data.set(ValueLayout.JAVA_SHORT_UNALIGNED, block + half, half(random));
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

    /** Where a block has fp16 scales and minimums. */
    private static int[] halves(ElementType type) {
        return switch (type) {
            case Q4_0, Q5_0, Q8_0 -> new int[] {0};
            case Q4_1, Q5_1, Q4_K, Q5_K -> new int[] {0, 2};
            case Q6_K -> new int[] {208};
            case F32, F16, BF16 -> throw new IllegalStateException(type + " has no blocks");
        };
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
