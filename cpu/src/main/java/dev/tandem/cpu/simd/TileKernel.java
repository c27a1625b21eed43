package dev.tandem.cpu.simd;

import jdk.incubator.vector.FloatVector;

/**
 * {@code out[row][column] += Σ_k x[row][k] · a[k][column]} in fp32 for two vectors of columns: the inner kernel of
 * matrix products and of both halves of attention.
 *
 * <p>Each output is one chain of fused multiply-adds over ascending k, whatever the number of rows: a token's result
 * does not depend on its neighbours in the batch, nor on how its prompt was cut. A lane is a column, so nothing is
 * summed across lanes and the vector width does not matter either.
 */
public final class TileKernel {
    /** Rows that share each load of {@code a}: 16 accumulators of 32 registers; narrower machines have 16 in all. */
    private static final int MOST_ROWS = Lanes.bits() == 512 ? 8 : 4;

    private TileKernel() {}

    /**
     * @param x [rows, depth] from {@code xo}, rows {@code xs} apart
     * @param a0 address of the first vector of columns at k = 0
     * @param a1 address of the second; the next k is {@code stride} bytes on for both
     * @param out [rows, 2 vectors] from {@code oo}, rows {@code os} apart; added to
     */
    public static void multiply(
            int rows, float[] x, int xo, int xs, long a0, long a1, long stride, int depth, float[] out, int oo, int os) {
        int row = 0;
        if (MOST_ROWS == 8) {
            for (; row + 8 <= rows; row += 8) {
                tile8(x, xo + row * xs, xs, a0, a1, stride, depth, out, oo + row * os, os);
            }
        }
        for (; row + 4 <= rows; row += 4) {
            tile4(x, xo + row * xs, xs, a0, a1, stride, depth, out, oo + row * os, os);
        }
        if (row + 2 <= rows) {
            tile2(x, xo + row * xs, xs, a0, a1, stride, depth, out, oo + row * os, os);
            row += 2;
        }
        if (row < rows) {
            tile1(x, xo + row * xs, a0, a1, stride, depth, out, oo + row * os);
        }
    }

    private static void tile8(
            float[] x, int xo, int xs, long a0, long a1, long stride, int depth, float[] out, int oo, int os) {
        FloatVector l0 = FloatVector.fromArray(Lanes.F, out, oo);
        FloatVector h0 = FloatVector.fromArray(Lanes.F, out, oo + Lanes.COUNT);
        FloatVector l1 = FloatVector.fromArray(Lanes.F, out, oo + os);
        FloatVector h1 = FloatVector.fromArray(Lanes.F, out, oo + os + Lanes.COUNT);
        FloatVector l2 = FloatVector.fromArray(Lanes.F, out, oo + 2 * os);
        FloatVector h2 = FloatVector.fromArray(Lanes.F, out, oo + 2 * os + Lanes.COUNT);
        FloatVector l3 = FloatVector.fromArray(Lanes.F, out, oo + 3 * os);
        FloatVector h3 = FloatVector.fromArray(Lanes.F, out, oo + 3 * os + Lanes.COUNT);
        FloatVector l4 = FloatVector.fromArray(Lanes.F, out, oo + 4 * os);
        FloatVector h4 = FloatVector.fromArray(Lanes.F, out, oo + 4 * os + Lanes.COUNT);
        FloatVector l5 = FloatVector.fromArray(Lanes.F, out, oo + 5 * os);
        FloatVector h5 = FloatVector.fromArray(Lanes.F, out, oo + 5 * os + Lanes.COUNT);
        FloatVector l6 = FloatVector.fromArray(Lanes.F, out, oo + 6 * os);
        FloatVector h6 = FloatVector.fromArray(Lanes.F, out, oo + 6 * os + Lanes.COUNT);
        FloatVector l7 = FloatVector.fromArray(Lanes.F, out, oo + 7 * os);
        FloatVector h7 = FloatVector.fromArray(Lanes.F, out, oo + 7 * os + Lanes.COUNT);
        int x1 = xo + xs;
        int x2 = xo + 2 * xs;
        int x3 = xo + 3 * xs;
        int x4 = xo + 4 * xs;
        int x5 = xo + 5 * xs;
        int x6 = xo + 6 * xs;
        int x7 = xo + 7 * xs;
        for (int k = 0; k < depth; k++) {
            FloatVector low = Lanes.load(a0);
            FloatVector high = Lanes.load(a1);
            FloatVector v0 = FloatVector.broadcast(Lanes.F, x[xo + k]);
            l0 = low.fma(v0, l0);
            h0 = high.fma(v0, h0);
            FloatVector v1 = FloatVector.broadcast(Lanes.F, x[x1 + k]);
            l1 = low.fma(v1, l1);
            h1 = high.fma(v1, h1);
            FloatVector v2 = FloatVector.broadcast(Lanes.F, x[x2 + k]);
            l2 = low.fma(v2, l2);
            h2 = high.fma(v2, h2);
            FloatVector v3 = FloatVector.broadcast(Lanes.F, x[x3 + k]);
            l3 = low.fma(v3, l3);
            h3 = high.fma(v3, h3);
            FloatVector v4 = FloatVector.broadcast(Lanes.F, x[x4 + k]);
            l4 = low.fma(v4, l4);
            h4 = high.fma(v4, h4);
            FloatVector v5 = FloatVector.broadcast(Lanes.F, x[x5 + k]);
            l5 = low.fma(v5, l5);
            h5 = high.fma(v5, h5);
            FloatVector v6 = FloatVector.broadcast(Lanes.F, x[x6 + k]);
            l6 = low.fma(v6, l6);
            h6 = high.fma(v6, h6);
            FloatVector v7 = FloatVector.broadcast(Lanes.F, x[x7 + k]);
            l7 = low.fma(v7, l7);
            h7 = high.fma(v7, h7);
            a0 += stride;
            a1 += stride;
        }
        l0.intoArray(out, oo);
        h0.intoArray(out, oo + Lanes.COUNT);
        l1.intoArray(out, oo + os);
        h1.intoArray(out, oo + os + Lanes.COUNT);
        l2.intoArray(out, oo + 2 * os);
        h2.intoArray(out, oo + 2 * os + Lanes.COUNT);
        l3.intoArray(out, oo + 3 * os);
        h3.intoArray(out, oo + 3 * os + Lanes.COUNT);
        l4.intoArray(out, oo + 4 * os);
        h4.intoArray(out, oo + 4 * os + Lanes.COUNT);
        l5.intoArray(out, oo + 5 * os);
        h5.intoArray(out, oo + 5 * os + Lanes.COUNT);
        l6.intoArray(out, oo + 6 * os);
        h6.intoArray(out, oo + 6 * os + Lanes.COUNT);
        l7.intoArray(out, oo + 7 * os);
        h7.intoArray(out, oo + 7 * os + Lanes.COUNT);
    }

    private static void tile4(
            float[] x, int xo, int xs, long a0, long a1, long stride, int depth, float[] out, int oo, int os) {
        FloatVector l0 = FloatVector.fromArray(Lanes.F, out, oo);
        FloatVector h0 = FloatVector.fromArray(Lanes.F, out, oo + Lanes.COUNT);
        FloatVector l1 = FloatVector.fromArray(Lanes.F, out, oo + os);
        FloatVector h1 = FloatVector.fromArray(Lanes.F, out, oo + os + Lanes.COUNT);
        FloatVector l2 = FloatVector.fromArray(Lanes.F, out, oo + 2 * os);
        FloatVector h2 = FloatVector.fromArray(Lanes.F, out, oo + 2 * os + Lanes.COUNT);
        FloatVector l3 = FloatVector.fromArray(Lanes.F, out, oo + 3 * os);
        FloatVector h3 = FloatVector.fromArray(Lanes.F, out, oo + 3 * os + Lanes.COUNT);
        int x1 = xo + xs;
        int x2 = xo + 2 * xs;
        int x3 = xo + 3 * xs;
        for (int k = 0; k < depth; k++) {
            FloatVector low = Lanes.load(a0);
            FloatVector high = Lanes.load(a1);
            FloatVector v0 = FloatVector.broadcast(Lanes.F, x[xo + k]);
            l0 = low.fma(v0, l0);
            h0 = high.fma(v0, h0);
            FloatVector v1 = FloatVector.broadcast(Lanes.F, x[x1 + k]);
            l1 = low.fma(v1, l1);
            h1 = high.fma(v1, h1);
            FloatVector v2 = FloatVector.broadcast(Lanes.F, x[x2 + k]);
            l2 = low.fma(v2, l2);
            h2 = high.fma(v2, h2);
            FloatVector v3 = FloatVector.broadcast(Lanes.F, x[x3 + k]);
            l3 = low.fma(v3, l3);
            h3 = high.fma(v3, h3);
            a0 += stride;
            a1 += stride;
        }
        l0.intoArray(out, oo);
        h0.intoArray(out, oo + Lanes.COUNT);
        l1.intoArray(out, oo + os);
        h1.intoArray(out, oo + os + Lanes.COUNT);
        l2.intoArray(out, oo + 2 * os);
        h2.intoArray(out, oo + 2 * os + Lanes.COUNT);
        l3.intoArray(out, oo + 3 * os);
        h3.intoArray(out, oo + 3 * os + Lanes.COUNT);
    }

    private static void tile2(
            float[] x, int xo, int xs, long a0, long a1, long stride, int depth, float[] out, int oo, int os) {
        FloatVector l0 = FloatVector.fromArray(Lanes.F, out, oo);
        FloatVector h0 = FloatVector.fromArray(Lanes.F, out, oo + Lanes.COUNT);
        FloatVector l1 = FloatVector.fromArray(Lanes.F, out, oo + os);
        FloatVector h1 = FloatVector.fromArray(Lanes.F, out, oo + os + Lanes.COUNT);
        int x1 = xo + xs;
        for (int k = 0; k < depth; k++) {
            FloatVector low = Lanes.load(a0);
            FloatVector high = Lanes.load(a1);
            FloatVector v0 = FloatVector.broadcast(Lanes.F, x[xo + k]);
            l0 = low.fma(v0, l0);
            h0 = high.fma(v0, h0);
            FloatVector v1 = FloatVector.broadcast(Lanes.F, x[x1 + k]);
            l1 = low.fma(v1, l1);
            h1 = high.fma(v1, h1);
            a0 += stride;
            a1 += stride;
        }
        l0.intoArray(out, oo);
        h0.intoArray(out, oo + Lanes.COUNT);
        l1.intoArray(out, oo + os);
        h1.intoArray(out, oo + os + Lanes.COUNT);
    }

    private static void tile1(
            float[] x, int xo, long a0, long a1, long stride, int depth, float[] out, int oo) {
        FloatVector l0 = FloatVector.fromArray(Lanes.F, out, oo);
        FloatVector h0 = FloatVector.fromArray(Lanes.F, out, oo + Lanes.COUNT);
        for (int k = 0; k < depth; k++) {
            FloatVector low = Lanes.load(a0);
            FloatVector high = Lanes.load(a1);
            FloatVector v0 = FloatVector.broadcast(Lanes.F, x[xo + k]);
            l0 = low.fma(v0, l0);
            h0 = high.fma(v0, h0);
            a0 += stride;
            a1 += stride;
        }
        l0.intoArray(out, oo);
        h0.intoArray(out, oo + Lanes.COUNT);
    }
}
