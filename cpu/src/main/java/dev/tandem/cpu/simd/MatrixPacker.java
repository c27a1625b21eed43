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

    /** Bytes that are allocated at a time: matrices smaller than a huge page then share huge pages. */
    private static final long SLAB = 64L << 20;

    private static final long ALIGNMENT = 64;

    private final Arena arena;
    private final Parallel parallel;
    /** What is left of the last slab. Where it is too small for a matrix, its pages are never touched. */
    private MemorySegment free = MemorySegment.NULL;

    /**
     * A packer that runs on given threads.
     *
     * @param arena owns the packed matrices
     */
    public MatrixPacker(Arena arena, Parallel parallel) {
        this.arena = arena;
        this.parallel = parallel;
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
        unload(tensors);
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

    /**
     * Packs quantised tensors without changing their quants and scales.
     *
     * @param tensors all of one type and with the same number of columns
     */
    public PackedMatrix.Quantised quantised(List<Tensor> tensors) {
        ElementType type = tensors.getFirst().type();
        int depth = tensors.getFirst().columns();
        int columns = rows(tensors);
        QuantFormat format = QuantFormat.of(type);
        PackedMatrix.Quantised shape = new PackedMatrix.Quantised(depth, columns, format, MemorySegment.NULL);
        MemorySegment data = allocate(shape.panelBytes() * shape.panels());
        PackedMatrix.Quantised matrix = new PackedMatrix.Quantised(depth, columns, format, data);
        forEachPanel(matrix, panel -> {
            int[] words = new int[(int) (matrix.panelBytes() / Integer.BYTES)];
            byte[] blocks = new byte[(int) type.bytes(depth)];
            QuantPacker packer = new QuantPacker(type, depth);
            for (int column = 0; column < Lanes.PANEL && panel * Lanes.PANEL + column < columns; column++) {
                at(
                        tensors,
                        panel * Lanes.PANEL + column,
                        (tensor, row) -> MemorySegment.copy(
                                tensor.data(), ValueLayout.JAVA_BYTE, tensor.rowOffset(row), blocks, 0, blocks.length));
                packer.pack(blocks, column, words);
            }
            MemorySegment.copy(words, 0, data, ValueLayout.JAVA_INT, panel * matrix.panelBytes(), words.length);
        });
        unload(tensors);
        return matrix;
    }

    /** Gives the pages of a file back that are in memory a second time now; where they are read again, they return. */
    private static void unload(List<Tensor> tensors) {
        for (Tensor tensor : tensors) {
            if (tensor.data().isMapped()) {
                tensor.data().unload();
            }
        }
    }

    /**
     * Allocates zeroed pages that have not been touched, so that the packing threads are the first to write them. Pages
     * are huge, because hardware prefetchers stop at the end of a page: two cores of a Zen 4 then read at 32 GB/s, not
     * at 28.
     */
    private MemorySegment allocate(long bytes) {
        long aligned = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        if (free.byteSize() < aligned) {
            free = NativeMemory.allocateHuge(Math.max(aligned, SLAB), "a part of the weights", arena);
        }
        MemorySegment matrix = free.asSlice(0, bytes);
        free = free.asSlice(aligned);
        return matrix;
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
