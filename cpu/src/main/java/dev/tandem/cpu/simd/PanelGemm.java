package dev.tandem.cpu.simd;

import dev.tandem.model.config.DataType;

/** GEMM of rows with one panel of a {@link PackedMatrix}, for every storage type; sums are fp32. */
public final class PanelGemm {
    /**
     * Inputs that are unpacked at a time: with 512 bits a panel's slice is 128 x 32 x 4 bytes = 16 KiB of fp32, which
     * stays in the first-level cache. Measured: with slices of 64 inputs the speed is 0.85 of this.
     */
    static final int SLICE = 128;

    private static final int SCALE_BYTES = 6 * 4 * Lanes.COUNT;
    /** Bytes of scratch memory that the caller provides: a block's scales, then a slice. */
    public static final long SCRATCH_BYTES = SCALE_BYTES + 4L * SLICE * Lanes.PANEL;

    private PanelGemm() {}

    /**
     * Computes {@code out[row] += x[row] · panel} for all rows.
     *
     * @param x [rows, depth] from {@code xo}, rows {@code xs} apart
     * @param groups the first {@link GroupKernel#grouped} rows again, interleaved in groups [depth, 8] from {@code go}
     * @param out [rows, {@link Lanes#PANEL}] from {@code oo}, rows {@code os} apart; added to
     * @param scratch address of {@link #SCRATCH_BYTES} bytes that only the calling thread uses
     */
    public static void multiply(
            PackedMatrix matrix,
            int panel,
            int rows,
            float[] x,
            int xo,
            int xs,
            float[] groups,
            int go,
            float[] out,
            int oo,
            int os,
            long scratch) {
        long at = matrix.panel(panel);
        switch (matrix) {
            case PackedMatrix.Plain plain
            when plain.type() == DataType.FLOAT32 ->
                multiplySlice(rows, x, xo, xs, groups, go, plain.depth(), at, plain.depth(), out, oo, os);
            case PackedMatrix.Plain plain -> {
                if (rows == 1) {
                    multiplyOne(plain, at, x, xo, out, oo);
                } else {
                    multiplyMany(plain, at, rows, x, xo, xs, groups, go, out, oo, os, scratch);
                }
            }
            case PackedMatrix.Quantised quantised -> {
                if (rows <= 2) {
                    for (int row = 0; row < rows; row++) {
                        multiplyOne(quantised, at, x, xo + row * xs, out, oo + row * os, scratch);
                    }
                } else {
                    multiplyMany(quantised, at, rows, x, xo, xs, groups, go, out, oo, os, scratch);
                }
            }
        }
    }

    private static void multiplyOne(PackedMatrix.Plain matrix, long at, float[] x, int xo, float[] out, int oo) {
        if (matrix.type() == DataType.BFLOAT16) {
            PlainKernel.multiplyBf16(x, xo, at, matrix.depth(), out, oo);
        } else {
            PlainKernel.multiplyFp16(x, xo, at, matrix.depth(), out, oo);
        }
    }

    private static void multiplyOne(
            PackedMatrix.Quantised matrix, long at, float[] x, int xo, float[] out, int oo, long scratch) {
        if (matrix.bits() == 4) {
            QuantisedKernel.multiply4(x, xo, at, matrix.depth(), out, oo, scratch);
        } else {
            QuantisedKernel.multiply8(x, xo, at, matrix.depth(), out, oo, scratch);
        }
    }

    private static void multiplyMany(
            PackedMatrix matrix,
            long at,
            int rows,
            float[] x,
            int xo,
            int xs,
            float[] groups,
            int go,
            float[] out,
            int oo,
            int os,
            long scratch) {
        long slice = scratch + SCALE_BYTES;
        long bytesPerInput = matrix.panelBytes() / matrix.depth();
        for (int k = 0; k < matrix.depth(); k += SLICE) {
            int depth = Math.min(SLICE, matrix.depth() - k);
            long from = at + offset(matrix, k, bytesPerInput);
            switch (matrix) {
                case PackedMatrix.Plain plain -> Unpack.toFloats(plain.type(), from, depth * Lanes.PANEL, slice);
                case PackedMatrix.Quantised quantised -> QuantisedKernel.unpack(quantised, from, depth, slice, scratch);
            }
            multiplySlice(
                    rows, x, xo + k, xs, groups, go + k * GroupKernel.ROWS, matrix.depth(), slice, depth, out, oo, os);
        }
    }

    /**
     * Multiplies by fp32 weights {@code [depth, PANEL]} at {@code a}; rows of groups are {@code wholeDepth} inputs
     * apart.
     */
    private static void multiplySlice(
            int rows,
            float[] x,
            int xo,
            int xs,
            float[] groups,
            int go,
            int wholeDepth,
            long a,
            int depth,
            float[] out,
            int oo,
            int os) {
        int grouped = GroupKernel.grouped(rows);
        for (int row = 0; row < grouped; row += GroupKernel.ROWS) {
            GroupKernel.multiply(groups, go + row * wholeDepth, a, depth, out, oo + row * os, os);
        }
        TileKernel.multiply(
                rows - grouped,
                x,
                xo + grouped * xs,
                xs,
                a,
                a + 4L * Lanes.COUNT,
                4L * Lanes.PANEL,
                depth,
                out,
                oo + grouped * os,
                os);
    }

    /** Byte offset of input {@code k} in a panel. */
    private static long offset(PackedMatrix matrix, int k, long bytesPerInput) {
        return switch (matrix) {
            case PackedMatrix.Plain plain -> k * bytesPerInput;
            case PackedMatrix.Quantised quantised -> (long) k / PackedMatrix.Quantised.BLOCK * quantised.blockBytes();
        };
    }
}
