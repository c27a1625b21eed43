package dev.tandem.cpu.simd;

import dev.tandem.model.config.DataType;

/** GEMM of rows with one panel of a {@link PackedMatrix}, for every storage type; sums are fp32. */
public final class PanelGemm {
    /**
     * Inputs that are unpacked at a time: with 512 bits a panel's slice is 128 x 32 x 4 bytes = 16 KiB of fp32, which
     * stays in the first-level cache. Measured: with slices of 64 inputs the speed is 0.85 of this.
     */
    static final int SLICE = 128;

    /** Inputs whose scales are widened at a time where quants are not unpacked: the largest super-block. */
    private static final int LONG_SLICE = QuantFormat.SUPER_BLOCK;

    private static final long SCALE_BYTES = (long) LONG_SLICE / QuantFormat.MIN_GROUP * GroupScales.BYTES;
    private static final long SLICE_BYTES = 4L * SLICE * Lanes.PANEL;
    /** The most rows that are multiplied at a time: inputs of 128 x 1536 x 4 bytes stay in the second-level cache. */
    public static final int MAX_ROWS = 128;

    private static final int VECTOR = 4 * Lanes.COUNT;
    /** Bytes of scratch memory that the caller provides: scales of a slice, then a slice. */
    public static final long SCRATCH_BYTES = SCALE_BYTES + SLICE_BYTES;

    private PanelGemm() {}

    /** Whether {@code rows} rows are multiplied one panel at a time, with a tile of that panel's outputs. */
    public static boolean needsTile(PackedMatrix matrix, GemmInput input, int rows) {
        return matrix instanceof PackedMatrix.Quantised && !(input.rounded() && rows == 1);
    }

    /**
     * Computes {@code out[row] += x[row] · panels} for rows {@code from .. from + rows} of the input.
     *
     * @param panels adjacent ones from {@code panel}; 1 where {@link #needsTile}
     * @param input arranged for this matrix
     * @param from a multiple of {@link GroupKernel#ROWS}
     * @param rows at most {@link #MAX_ROWS}; a multiple of {@link GroupKernel#ROWS}, or all that are left
     * @param out [rows, panels * {@link Lanes#PANEL}] from {@code oo}, rows {@code os} apart; added to. Where
     *     {@link #needsTile}, {@code os} is {@code PANEL}.
     * @param scratch address of {@link #SCRATCH_BYTES} bytes that only the calling thread uses
     */
    public static void multiply(
            PackedMatrix matrix,
            int panel,
            int panels,
            GemmInput input,
            int from,
            int rows,
            float[] out,
            int oo,
            int os,
            long scratch) {
        switch (matrix) {
            case PackedMatrix.Plain plain -> {
                for (int i = 0; i < panels; i++) {
                    long at = plain.panel(panel + i);
                    multiplyPlain(plain, at, input, from, rows, out, oo + i * Lanes.PANEL, os, scratch + SCALE_BYTES);
                }
            }
            case PackedMatrix.Quantised quantised
            when input.rounded() -> input.multiplyInt8(quantised, panel, panels, from, rows, out, oo);
            case PackedMatrix.Quantised quantised ->
                multiplyQuantised(quantised, quantised.panel(panel), input, from, rows, out, oo, scratch);
        }
    }

    private static void multiplyPlain(
            PackedMatrix.Plain matrix,
            long at,
            GemmInput input,
            int from,
            int rows,
            float[] out,
            int oo,
            int os,
            long slice) {
        if (matrix.type() == DataType.FLOAT32) {
            multiplySlice(input, from, rows, at, 0, matrix.depth(), out, oo, os);
        } else if (rows == 1) {
            multiplyOne(matrix, at, input.singles, input.singleAt(from), out, oo);
        } else {
            multiplyMany(matrix, at, input, from, rows, out, oo, os, slice);
        }
    }

    private static void multiplyOne(PackedMatrix.Plain matrix, long at, float[] x, int xo, float[] out, int oo) {
        if (matrix.type() == DataType.BFLOAT16) {
            PlainKernel.multiplyBf16(x, xo, at, matrix.depth(), out, oo);
        } else {
            PlainKernel.multiplyFp16(x, xo, at, matrix.depth(), out, oo);
        }
    }

    private static void multiplyMany(
            PackedMatrix.Plain matrix,
            long at,
            GemmInput input,
            int from,
            int rows,
            float[] out,
            int oo,
            int os,
            long slice) {
        for (int k = 0; k < matrix.depth(); k += SLICE) {
            int depth = Math.min(SLICE, matrix.depth() - k);
            long weights = at + (long) k * Lanes.PANEL * matrix.type().bytes();
            Unpack.toFloats(matrix.type(), weights, depth * Lanes.PANEL, slice);
            multiplySlice(input, from, rows, slice, k, depth, out, oo, os);
        }
    }

    /** Multiplies by fp32 weights {@code [depth, PANEL]} at {@code a}, which belong to inputs from {@code k}. */
    private static void multiplySlice(
            GemmInput input, int from, int rows, long a, int k, int depth, float[] out, int oo, int os) {
        int grouped = GroupKernel.grouped(rows);
        for (int row = 0; row < grouped; row += GroupKernel.ROWS) {
            int group = input.groupAt(from + row) + k * GroupKernel.ROWS;
            GroupKernel.multiply(input.groups, group, a, depth, out, oo + row * os, os);
        }
        TileKernel.multiply(
                rows - grouped,
                input.singles,
                input.singleAt(from + grouped) + k,
                input.singleStride(),
                a,
                a + VECTOR,
                2L * VECTOR,
                depth,
                out,
                oo + grouped * os,
                os);
    }

    private static void multiplyQuantised(
            PackedMatrix.Quantised matrix,
            long at,
            GemmInput input,
            int from,
            int rows,
            float[] out,
            int oo,
            long scratch) {
        boolean unpacks = rows >= GroupGemm.FEW;
        int step = unpacks ? SLICE : LONG_SLICE;
        for (int k = 0; k < matrix.depth(); k += step) {
            int depth = Math.min(step, matrix.depth() - k);
            GroupScales.widen(matrix, at, k, depth, scratch);
            int done = unpacks ? multiplyUnpacked(matrix, at, input, from, rows, k, depth, out, oo, scratch) : 0;
            for (int row = done; row < rows; row++) {
                multiplyPacked(matrix, at, input, from + row, k, depth, out, oo + row * Lanes.PANEL, scratch);
            }
        }
    }

    /** Multiplies rows eight and four at a time; returns how many, and leaves at most three. */
    private static int multiplyUnpacked(
            PackedMatrix.Quantised matrix,
            long at,
            GemmInput input,
            int from,
            int rows,
            int k,
            int depth,
            float[] out,
            int oo,
            long scratch) {
        QuantFormat format = matrix.format();
        int groups = depth / format.group;
        int sums = input.sumStride();
        long slice = scratch + SCALE_BYTES;
        QuantUnpack.unpack(format.bits, quants(matrix, at, k), depth, slice);
        int row = 0;
        for (; row < GroupKernel.grouped(rows); row += GroupKernel.ROWS) {
            GroupGemm.multiply8(
                    format.group,
                    groups,
                    input.groups,
                    input.groupAt(from + row) + k * GroupKernel.ROWS,
                    input.sums,
                    (from + row) * sums + k / format.group * GroupKernel.ROWS,
                    slice,
                    scratch,
                    out,
                    oo + row * Lanes.PANEL);
        }
        for (; row + GroupGemm.FEW <= rows; row += GroupGemm.FEW) {
            GroupGemm.multiply4(
                    format.group,
                    groups,
                    input.singles,
                    input.singleAt(from + row) + k,
                    input.singleStride(),
                    input.sums,
                    (from + row) * sums + k / format.group,
                    sums,
                    slice,
                    scratch,
                    out,
                    oo + row * Lanes.PANEL);
        }
        return row;
    }

    /** Multiplies one row that is not interleaved by the quants as they are. */
    private static void multiplyPacked(
            PackedMatrix.Quantised matrix,
            long at,
            GemmInput input,
            int row,
            int k,
            int depth,
            float[] out,
            int oo,
            long scales) {
        QuantFormat format = matrix.format();
        GroupGemv.multiply(
                format.bits,
                format.group,
                depth / format.group,
                input.singles,
                input.singleAt(row) + k,
                input.sums,
                row * input.sumStride() + k / format.group,
                quants(matrix, at, k),
                scales,
                out,
                oo);
    }

    private static long quants(PackedMatrix.Quantised matrix, long panel, int k) {
        return panel + (long) matrix.format().quantVector(matrix.depth(), k) * VECTOR;
    }
}
