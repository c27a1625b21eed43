package dev.tandem.cpu.simd;

import dev.tandem.cpu.topology.NativeMemory;
import dev.tandem.model.config.DataType;
import dev.tandem.model.weights.ElementType;
import dev.tandem.model.weights.Tensor;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.List;
import java.util.function.IntConsumer;

/**
 * Packs weight tensors into a {@link PackedMatrix}. Several tensors become one matrix, the columns of one after those
 * of another, so that q, k and v are one GEMM, and gate and up another.
 */
public final class MatrixPacker {
    /** How to run a loop in parallel. */
    public interface Parallel {
        /** Runs {@code body} for every index below {@code count}, in any order and on any threads. */
        void forEach(int count, IntConsumer body);
    }

    private final Arena arena;
    private final Parallel parallel;

    /**
     * A packer that runs on given threads.
     *
     * @param arena owns the packed matrices
     */
    public MatrixPacker(Arena arena, Parallel parallel) {
        this.arena = arena;
        this.parallel = parallel;
    }

    /** Whether all tensors are of one quantised type whose blocks can be kept without loss and without unpacking. */
    public static boolean keepsBlocks(List<Tensor> tensors) {
        ElementType type = tensors.getFirst().type();
        return keepsBlocks(type) && tensors.stream().allMatch(tensor -> tensor.type() == type);
    }

    /** Whether blocks of this type can be kept without loss and without unpacking. */
    public static boolean keepsBlocks(ElementType type) {
        return type == ElementType.Q4_0 || type == ElementType.Q4_1 || type == ElementType.Q8_0;
    }

    /**
     * Packs tensors of any type, converted to {@code type}.
     *
     * @param tensors all with the same number of columns; their rows become the matrix's columns, in order
     */
    public PackedMatrix.Plain plain(List<Tensor> tensors, DataType type) {
        int depth = tensors.getFirst().columns();
        int columns = rows(tensors);
        MemorySegment data = allocate((long) depth * Lanes.padded(columns) * type.bytes());
        PackedMatrix.Plain matrix = new PackedMatrix.Plain(depth, columns, type, data);
        forEachPanel(matrix, panel -> {
            float[] row = new float[depth];
            for (int column = 0; column < Lanes.PANEL && panel * Lanes.PANEL + column < columns; column++) {
                at(tensors, panel * Lanes.PANEL + column, (tensor, index) -> tensor.row(index, row, 0));
                long to = panel * matrix.panelBytes() + (long) column * type.bytes();
                store(data, to, (long) Lanes.PANEL * type.bytes(), row, type);
            }
        });
        return matrix;
    }

    private static void store(MemorySegment data, long to, long stride, float[] row, DataType type) {
        switch (type) {
            case FLOAT32 -> {
                for (int k = 0; k < row.length; k++) {
                    data.set(ValueLayout.JAVA_FLOAT, to + k * stride, row[k]);
                }
            }
            case BFLOAT16 -> {
                for (int k = 0; k < row.length; k++) {
                    data.set(ValueLayout.JAVA_SHORT, to + k * stride, Unpack.toBf16(row[k]));
                }
            }
            case FLOAT16 -> {
                for (int k = 0; k < row.length; k++) {
                    data.set(ValueLayout.JAVA_SHORT, to + k * stride, Float.floatToFloat16(row[k]));
                }
            }
        }
    }

    /** Packs quantised tensors without changing their quants; {@link #keepsBlocks} must be true. */
    public PackedMatrix.Quantised quantised(List<Tensor> tensors) {
        ElementType type = tensors.getFirst().type();
        int depth = tensors.getFirst().columns();
        int columns = rows(tensors);
        int bits = type == ElementType.Q8_0 ? 8 : 4;
        PackedMatrix.Quantised shape = new PackedMatrix.Quantised(depth, columns, bits, MemorySegment.NULL);
        MemorySegment data = allocate(shape.panelBytes() * shape.panels());
        PackedMatrix.Quantised matrix = new PackedMatrix.Quantised(depth, columns, bits, data);
        forEachPanel(matrix, panel -> {
            int[] words = new int[(int) (matrix.panelBytes() / Integer.BYTES)];
            byte[] blocks = new byte[(int) type.bytes(depth)];
            for (int column = 0; column < Lanes.PANEL && panel * Lanes.PANEL + column < columns; column++) {
                at(
                        tensors,
                        panel * Lanes.PANEL + column,
                        (tensor, row) -> MemorySegment.copy(
                                tensor.data(), ValueLayout.JAVA_BYTE, tensor.rowOffset(row), blocks, 0, blocks.length));
                packColumn(type, blocks, column, words, matrix.blockBytes() / Integer.BYTES);
            }
            MemorySegment.copy(words, 0, data, ValueLayout.JAVA_INT, panel * matrix.panelBytes(), words.length);
        });
        return matrix;
    }

    /**
     * Packs one column.
     *
     * @param blocks the column's blocks as stored in the file; an array, because code that is not compiled yet reads an
     *     array faster than a memory segment
     */
    private static void packColumn(ElementType type, byte[] blocks, int column, int[] words, int blockWords) {
        int lane = column % Lanes.COUNT;
        int upper = column / Lanes.COUNT * 16;
        for (int from = 0; from < blocks.length; from += type.blockBytes()) {
            packBlock(type, blocks, from, words, lane, upper);
            lane += blockWords;
        }
    }

    private static void packBlock(ElementType type, byte[] blocks, int at, int[] words, int lane, int upper) {
        words[lane] |= half(blocks, at) << upper;
        switch (type) {
            case Q4_0 -> {
                // exact, since -8 is a power of two; a scale so large that this overflows does not occur
                float minimum = -8 * Float.float16ToFloat((short) half(blocks, at));
                words[Lanes.COUNT + lane] |= (Float.floatToFloat16(minimum) & 0xFFFF) << upper;
                packNibbles(blocks, at + 2, words, 2 * Lanes.COUNT + lane, upper);
            }
            case Q4_1 -> {
                words[Lanes.COUNT + lane] |= half(blocks, at + 2) << upper;
                packNibbles(blocks, at + 4, words, 2 * Lanes.COUNT + lane, upper);
            }
            case Q8_0 -> {
                for (int k = 0; k < PackedMatrix.Quantised.BLOCK; k++) {
                    int quant = blocks[at + 2 + k] + 128;
                    words[Lanes.COUNT * (1 + k / 2) + lane] |= quant << upper + k % 2 * 8;
                }
            }
            case F32, F16, BF16, Q5_0, Q5_1, Q4_K, Q5_K, Q6_K ->
                throw new IllegalStateException(type + " is not kept in blocks");
        }
    }

    private static int half(byte[] blocks, int at) {
        return blocks[at] & 0xFF | (blocks[at + 1] & 0xFF) << 8;
    }

    /** Packs 32 quants of 4 bits. A file's byte holds inputs i and i + 16; a word holds four consecutive inputs. */
    private static void packNibbles(byte[] blocks, int at, int[] words, int lane, int upper) {
        for (int four = 0; four < 4; four++) {
            int low = 0;
            int high = 0;
            for (int i = 0; i < 4; i++) {
                int pair = blocks[at + 4 * four + i];
                low |= (pair & 15) << 4 * i;
                high |= (pair >> 4 & 15) << 4 * i;
            }
            words[lane + four * Lanes.COUNT] |= low << upper;
            words[lane + (four + 4) * Lanes.COUNT] |= high << upper;
        }
    }

    /** Allocates zeroed pages that have not been touched, so that the packing threads are the first to write them. */
    private MemorySegment allocate(long bytes) {
        return NativeMemory.allocate(bytes, "a matrix of weights", arena);
    }

    private void forEachPanel(PackedMatrix matrix, IntConsumer body) {
        parallel.forEach(matrix.panels(), body);
    }

    private static int rows(List<Tensor> tensors) {
        return tensors.stream().mapToInt(Tensor::rows).sum();
    }

    private interface RowAction {
        void on(Tensor tensor, int row);
    }

    /** Applies the action to a row of the tensors, whose rows are counted through. */
    private static void at(List<Tensor> tensors, int row, RowAction action) {
        int left = row;
        for (Tensor tensor : tensors) {
            if (left < tensor.rows()) {
                action.on(tensor, left);
                return;
            }
            left -= tensor.rows();
        }
        throw new IndexOutOfBoundsException("row " + row);
    }
}
