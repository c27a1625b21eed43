package dev.tandem.model.weights;

import java.lang.foreign.MemorySegment;
import java.util.function.IntUnaryOperator;

/**
 * A matrix or vector in a file; a vector is one row. Values are unpacked row by row on demand.
 *
 * @param data the tensor's bytes, row after row
 * @param rowOrder maps a row of the model to the row of the file that holds it
 */
public record Tensor(
        String name, ElementType type, int rows, int columns, MemorySegment data, IntUnaryOperator rowOrder) {

    public static Tensor of(String name, ElementType type, int rows, int columns, MemorySegment data) {
        return new Tensor(name, type, rows, columns, data, IntUnaryOperator.identity());
    }

    /** The same tensor with its rows in another order. */
    public Tensor inOrder(IntUnaryOperator order) {
        return new Tensor(name, type, rows, columns, data, order);
    }

    /** Byte offset of a row in {@link #data}. */
    public long rowOffset(int row) {
        return rowOrder.applyAsInt(row) * type.bytes(columns);
    }

    /** Writes row {@code row} as fp32 to {@code out[offset ..]}. */
    public void row(int row, float[] out, int offset) {
        type.unpack(data, rowOffset(row), columns, out, offset);
    }

    /** All values of a vector. */
    public float[] vector() {
        float[] values = new float[columns];
        row(0, values, 0);
        return values;
    }
}
