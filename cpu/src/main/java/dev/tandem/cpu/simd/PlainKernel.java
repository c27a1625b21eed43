package dev.tandem.cpu.simd;

import jdk.incubator.vector.FloatVector;

/** Multiplies one row by a panel of 16-bit weights, which it widens in registers; used for batches of one token. */
final class PlainKernel {
    private PlainKernel() {}

    /** Computes {@code out[0 .. PANEL) += x · panel} for bf16 weights at address {@code at}. */
    static void multiplyBf16(float[] x, int xo, long at, int depth, float[] out, int oo) {
        FloatVector low = FloatVector.fromArray(Lanes.F, out, oo);
        FloatVector high = FloatVector.fromArray(Lanes.F, out, oo + Lanes.COUNT);
        for (int k = 0; k < depth; k++) {
            FloatVector v = FloatVector.broadcast(Lanes.F, x[xo + k]);
            low = Unpack.bf16(at).fma(v, low);
            high = Unpack.bf16(at + 2L * Lanes.COUNT).fma(v, high);
            at += 2L * Lanes.PANEL;
        }
        low.intoArray(out, oo);
        high.intoArray(out, oo + Lanes.COUNT);
    }

    /** Computes {@code out[0 .. PANEL) += x · panel} for fp16 weights at address {@code at}. */
    static void multiplyFp16(float[] x, int xo, long at, int depth, float[] out, int oo) {
        FloatVector low = FloatVector.fromArray(Lanes.F, out, oo);
        FloatVector high = FloatVector.fromArray(Lanes.F, out, oo + Lanes.COUNT);
        for (int k = 0; k < depth; k++) {
            FloatVector v = FloatVector.broadcast(Lanes.F, x[xo + k]);
            low = Unpack.fp16(at).fma(v, low);
            high = Unpack.fp16(at + 2L * Lanes.COUNT).fma(v, high);
            at += 2L * Lanes.PANEL;
        }
        low.intoArray(out, oo);
        high.intoArray(out, oo + Lanes.COUNT);
    }
}
