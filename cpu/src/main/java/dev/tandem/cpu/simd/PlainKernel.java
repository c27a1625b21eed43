package dev.tandem.cpu.simd;

import jdk.incubator.vector.FloatVector;

/** One row times a panel of 16-bit weights, without a detour through memory: what batch-1 decoding runs. */
final class PlainKernel {
    private PlainKernel() {}

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
