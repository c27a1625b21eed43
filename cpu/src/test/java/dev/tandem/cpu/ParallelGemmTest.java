package dev.tandem.cpu;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.tandem.cpu.simd.ActivationPrecision;
import dev.tandem.cpu.simd.Int8Kernel;
import dev.tandem.cpu.simd.MatrixPacker;
import dev.tandem.cpu.simd.PackedMatrix;
import dev.tandem.cpu.topology.WorkerPool;
import dev.tandem.model.config.DataType;
import dev.tandem.model.weights.ElementType;
import dev.tandem.model.weights.Tensor;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import java.util.stream.IntStream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** A projection of several matrices has the bits of each matrix alone, also where panels are not whole. */
class ParallelGemmTest {
    private static final int DEPTH = 256;
    private static final ElementType[] TYPES = {ElementType.Q4_K, ElementType.F32, ElementType.Q6_K};
    private static final int[] COLUMNS = {72, 8, 37};
    private static final int ALL = 72 + 8 + 37;
    /** Outputs of a row, and a gap that must stay as it was. */
    private static final int STRIDE = ALL + 5;

    @ParameterizedTest
    @ValueSource(ints = {1, 3, 9, 131})
    void matricesOfDifferentTypesStandSideBySide(int rows) {
        standSideBySide(rows, ActivationPrecision.EXACT);
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 3, 9, 131})
    void soTheyDoWithInt8Activations(int rows) {
        assumeTrue(Int8Kernel.find().isPresent(), Int8Kernel::obstacle);
        standSideBySide(rows, ActivationPrecision.INT8);
    }

    private static void standSideBySide(int rows, ActivationPrecision precision) {
        SplittableRandom random = new SplittableRandom(rows);
        try (Arena arena = Arena.ofShared();
                WorkerPool workers = new WorkerPool(2, false)) {
            MatrixPacker packer = new MatrixPacker(
                    arena, (count, body) -> IntStream.range(0, count).forEach(body));
            List<PackedMatrix> matrices = new ArrayList<>();
            for (int i = 0; i < TYPES.length; i++) {
                List<Tensor> tensors = List.of(tensor(TYPES[i], COLUMNS[i], random, arena));
                matrices.add(
                        TYPES[i].quantised() ? packer.quantised(tensors) : packer.plain(tensors, DataType.FLOAT32));
            }
            float[] x = floats(rows * DEPTH, random);
            float[] before = floats(rows * STRIDE, random);
            float[] together = before.clone();
            float[] apart = before.clone();
            ParallelGemm gemm = new ParallelGemm(workers, precision, arena);
            gemm.add(matrices, rows, x, DEPTH, together, STRIDE);
            int first = 0;
            for (PackedMatrix matrix : matrices) {
                int columns = matrix.columns();
                float[] part = new float[rows * columns];
                for (int row = 0; row < rows; row++) {
                    System.arraycopy(before, row * STRIDE + first, part, row * columns, columns);
                }
                gemm.add(List.of(matrix), rows, x, DEPTH, part, columns);
                for (int row = 0; row < rows; row++) {
                    System.arraycopy(part, row * columns, apart, row * STRIDE + first, columns);
                }
                first += columns;
            }
            assertThat(together).as("seed %d", rows).isEqualTo(apart);
            assertThat(Arrays.copyOfRange(together, 0, ALL))
                    .as("seed %d", rows)
                    .isNotEqualTo(Arrays.copyOfRange(before, 0, ALL));
        }
    }

    private static Tensor tensor(ElementType type, int columns, SplittableRandom random, Arena arena) {
        MemorySegment data = arena.allocate(type.bytes(DEPTH) * columns, 64);
        if (type == ElementType.F32) {
            MemorySegment.copy(floats(DEPTH * columns, random), 0, data, ValueLayout.JAVA_FLOAT, 0, DEPTH * columns);
        } else {
            for (long at = 0; at < data.byteSize(); at++) {
                data.set(ValueLayout.JAVA_BYTE, at, (byte) random.nextInt());
            }
            long[] halves = type == ElementType.Q6_K ? new long[] {208} : new long[] {0, 2};
            for (long block = 0; block < data.byteSize(); block += type.blockBytes()) {
                for (long half : halves) {
                    short scale = Float.floatToFloat16((float) (0.01 * random.nextDouble()));
                    data.set(ValueLayout.JAVA_SHORT_UNALIGNED, block + half, scale);
                }
            }
        }
        return Tensor.of("w", type, columns, DEPTH, data);
    }

    private static float[] floats(int count, SplittableRandom random) {
        float[] values = new float[count];
        for (int i = 0; i < count; i++) {
            values[i] = (float) (2 * random.nextDouble() - 1);
        }
        return values;
    }
}
