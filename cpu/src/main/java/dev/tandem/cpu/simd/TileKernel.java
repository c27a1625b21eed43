package dev.tandem.cpu.simd;

import jdk.incubator.vector.FloatVector;

/**
 * Computes {@code out[row][column] += Σ_k x[row][k] · a[k][column]} in fp32 for two vectors of columns. It is the inner
 * kernel of attention's two GEMMs, and of other GEMMs for the rows that {@link GroupKernel} leaves over.
 *
 * <p>Each output is one chain of fused multiply-adds over ascending k, for any number of rows. A token's result
 * therefore depends neither on its neighbours in the batch nor on the chunks of its prompt. A lane is a column, so
 * nothing is summed across lanes, and the vector width does not change the result either.
 */
public final class TileKernel {
    private TileKernel() {}

    /**
     * Multiplies four rows at a time, then two, then one.
     *
     * @param x [rows, depth] from {@code xo}, rows {@code xs} apart
     * @param a0 address of the first vector of columns at k = 0
     * @param a1 address of the second vector of columns at k = 0
     * @param stride bytes from one k to the next, for both
     * @param out [rows, 2 vectors] from {@code oo}, rows {@code os} apart; added to
     */
    public static void multiply(
            int rows,
            float[] x,
            int xo,
            int xs,
            long a0,
            long a1,
            long stride,
            int depth,
            float[] out,
            int oo,
            int os) {
        int row = 0;
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

    private static void tile1(float[] x, int xo, long a0, long a1, long stride, int depth, float[] out, int oo) {
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
