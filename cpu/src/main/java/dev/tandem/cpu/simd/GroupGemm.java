package dev.tandem.cpu.simd;

import static dev.tandem.cpu.simd.Lanes.F;
import static dev.tandem.cpu.simd.Lanes.LE;
import static dev.tandem.cpu.simd.Lanes.MEMORY;

import jdk.incubator.vector.FloatVector;

/**
 * Multiplies several rows by a panel of a {@link PackedMatrix.Quantised} whose quants {@link QuantUnpack} has unpacked.
 * It sums as {@link GroupGemv} does, so a row's result does not depend on how many rows there are.
 */
final class GroupGemm {
    private static final int ROWS = GroupKernel.ROWS;
    /** Rows of {@link #multiply4}. */
    static final int FEW = 4;

    private static final int VECTOR = 4 * Lanes.COUNT;

    private GroupGemm() {}

    /**
     * Computes {@code out += x · panel} for eight interleaved rows and some groups of inputs.
     *
     * @param group inputs per group
     * @param x inputs times {@link QuantFormat#inputFactor}, [groups · group, 8] from {@code xo}
     * @param sums the sums of each group's inputs, [groups, 8] from {@code so}
     * @param a address of the unpacked quants
     * @param scales address of the groups' scales, as {@link GroupScales} widens them
     * @param out [8, PANEL] from {@code oo}; rows at fixed distances need no addresses of their own, which is 1.2 times
     *     as fast
     */
    static void multiply8(
            int group, int groups, float[] x, int xo, float[] sums, int so, long a, long scales, float[] out, int oo) {
        for (int g = 0; g < groups; g++) {
            FloatVector l0 = FloatVector.zero(F);
            FloatVector h0 = FloatVector.zero(F);
            FloatVector l1 = FloatVector.zero(F);
            FloatVector h1 = FloatVector.zero(F);
            FloatVector l2 = FloatVector.zero(F);
            FloatVector h2 = FloatVector.zero(F);
            FloatVector l3 = FloatVector.zero(F);
            FloatVector h3 = FloatVector.zero(F);
            FloatVector l4 = FloatVector.zero(F);
            FloatVector h4 = FloatVector.zero(F);
            FloatVector l5 = FloatVector.zero(F);
            FloatVector h5 = FloatVector.zero(F);
            FloatVector l6 = FloatVector.zero(F);
            FloatVector h6 = FloatVector.zero(F);
            FloatVector l7 = FloatVector.zero(F);
            FloatVector h7 = FloatVector.zero(F);
            for (int k = 0; k < group; k++) {
                FloatVector low = FloatVector.fromMemorySegment(F, MEMORY, a, LE);
                FloatVector high = FloatVector.fromMemorySegment(F, MEMORY, a + VECTOR, LE);
                FloatVector v0 = FloatVector.broadcast(F, x[xo]);
                l0 = low.fma(v0, l0);
                h0 = high.fma(v0, h0);
                FloatVector v1 = FloatVector.broadcast(F, x[xo + 1]);
                l1 = low.fma(v1, l1);
                h1 = high.fma(v1, h1);
                FloatVector v2 = FloatVector.broadcast(F, x[xo + 2]);
                l2 = low.fma(v2, l2);
                h2 = high.fma(v2, h2);
                FloatVector v3 = FloatVector.broadcast(F, x[xo + 3]);
                l3 = low.fma(v3, l3);
                h3 = high.fma(v3, h3);
                FloatVector v4 = FloatVector.broadcast(F, x[xo + 4]);
                l4 = low.fma(v4, l4);
                h4 = high.fma(v4, h4);
                FloatVector v5 = FloatVector.broadcast(F, x[xo + 5]);
                l5 = low.fma(v5, l5);
                h5 = high.fma(v5, h5);
                FloatVector v6 = FloatVector.broadcast(F, x[xo + 6]);
                l6 = low.fma(v6, l6);
                h6 = high.fma(v6, h6);
                FloatVector v7 = FloatVector.broadcast(F, x[xo + 7]);
                l7 = low.fma(v7, l7);
                h7 = high.fma(v7, h7);
                a += 2L * VECTOR;
                xo += ROWS;
            }
            FloatVector scaleLow = FloatVector.fromMemorySegment(F, MEMORY, scales, LE);
            FloatVector scaleHigh = FloatVector.fromMemorySegment(F, MEMORY, scales + VECTOR, LE);
            FloatVector minimumLow = FloatVector.fromMemorySegment(F, MEMORY, scales + 2L * VECTOR, LE);
            FloatVector minimumHigh = FloatVector.fromMemorySegment(F, MEMORY, scales + 3L * VECTOR, LE);
            FloatVector s0 = FloatVector.broadcast(F, sums[so]);
            minimumLow
                    .fma(s0, scaleLow.fma(l0, FloatVector.fromArray(F, out, oo)))
                    .intoArray(out, oo);
            minimumHigh
                    .fma(s0, scaleHigh.fma(h0, FloatVector.fromArray(F, out, oo + Lanes.COUNT)))
                    .intoArray(out, oo + Lanes.COUNT);
            FloatVector s1 = FloatVector.broadcast(F, sums[so + 1]);
            minimumLow
                    .fma(s1, scaleLow.fma(l1, FloatVector.fromArray(F, out, oo + 2 * Lanes.COUNT)))
                    .intoArray(out, oo + 2 * Lanes.COUNT);
            minimumHigh
                    .fma(s1, scaleHigh.fma(h1, FloatVector.fromArray(F, out, oo + 3 * Lanes.COUNT)))
                    .intoArray(out, oo + 3 * Lanes.COUNT);
            FloatVector s2 = FloatVector.broadcast(F, sums[so + 2]);
            minimumLow
                    .fma(s2, scaleLow.fma(l2, FloatVector.fromArray(F, out, oo + 4 * Lanes.COUNT)))
                    .intoArray(out, oo + 4 * Lanes.COUNT);
            minimumHigh
                    .fma(s2, scaleHigh.fma(h2, FloatVector.fromArray(F, out, oo + 5 * Lanes.COUNT)))
                    .intoArray(out, oo + 5 * Lanes.COUNT);
            FloatVector s3 = FloatVector.broadcast(F, sums[so + 3]);
            minimumLow
                    .fma(s3, scaleLow.fma(l3, FloatVector.fromArray(F, out, oo + 6 * Lanes.COUNT)))
                    .intoArray(out, oo + 6 * Lanes.COUNT);
            minimumHigh
                    .fma(s3, scaleHigh.fma(h3, FloatVector.fromArray(F, out, oo + 7 * Lanes.COUNT)))
                    .intoArray(out, oo + 7 * Lanes.COUNT);
            FloatVector s4 = FloatVector.broadcast(F, sums[so + 4]);
            minimumLow
                    .fma(s4, scaleLow.fma(l4, FloatVector.fromArray(F, out, oo + 8 * Lanes.COUNT)))
                    .intoArray(out, oo + 8 * Lanes.COUNT);
            minimumHigh
                    .fma(s4, scaleHigh.fma(h4, FloatVector.fromArray(F, out, oo + 9 * Lanes.COUNT)))
                    .intoArray(out, oo + 9 * Lanes.COUNT);
            FloatVector s5 = FloatVector.broadcast(F, sums[so + 5]);
            minimumLow
                    .fma(s5, scaleLow.fma(l5, FloatVector.fromArray(F, out, oo + 10 * Lanes.COUNT)))
                    .intoArray(out, oo + 10 * Lanes.COUNT);
            minimumHigh
                    .fma(s5, scaleHigh.fma(h5, FloatVector.fromArray(F, out, oo + 11 * Lanes.COUNT)))
                    .intoArray(out, oo + 11 * Lanes.COUNT);
            FloatVector s6 = FloatVector.broadcast(F, sums[so + 6]);
            minimumLow
                    .fma(s6, scaleLow.fma(l6, FloatVector.fromArray(F, out, oo + 12 * Lanes.COUNT)))
                    .intoArray(out, oo + 12 * Lanes.COUNT);
            minimumHigh
                    .fma(s6, scaleHigh.fma(h6, FloatVector.fromArray(F, out, oo + 13 * Lanes.COUNT)))
                    .intoArray(out, oo + 13 * Lanes.COUNT);
            FloatVector s7 = FloatVector.broadcast(F, sums[so + 7]);
            minimumLow
                    .fma(s7, scaleLow.fma(l7, FloatVector.fromArray(F, out, oo + 14 * Lanes.COUNT)))
                    .intoArray(out, oo + 14 * Lanes.COUNT);
            minimumHigh
                    .fma(s7, scaleHigh.fma(h7, FloatVector.fromArray(F, out, oo + 15 * Lanes.COUNT)))
                    .intoArray(out, oo + 15 * Lanes.COUNT);
            scales += GroupScales.BYTES;
            so += ROWS;
        }
    }

    /**
     * Computes the same for four rows.
     *
     * @param x [4, groups · group] from {@code xo}, rows {@code xs} apart
     * @param sums [4, groups] from {@code so}, rows {@code ss} apart
     */
    static void multiply4(
            int group,
            int groups,
            float[] x,
            int xo,
            int xs,
            float[] sums,
            int so,
            int ss,
            long a,
            long scales,
            float[] out,
            int oo) {
        int x1 = xo + xs;
        int x2 = xo + 2 * xs;
        int x3 = xo + 3 * xs;
        for (int g = 0; g < groups; g++) {
            FloatVector l0 = FloatVector.zero(F);
            FloatVector h0 = FloatVector.zero(F);
            FloatVector l1 = FloatVector.zero(F);
            FloatVector h1 = FloatVector.zero(F);
            FloatVector l2 = FloatVector.zero(F);
            FloatVector h2 = FloatVector.zero(F);
            FloatVector l3 = FloatVector.zero(F);
            FloatVector h3 = FloatVector.zero(F);
            for (int k = 0; k < group; k++) {
                FloatVector low = FloatVector.fromMemorySegment(F, MEMORY, a, LE);
                FloatVector high = FloatVector.fromMemorySegment(F, MEMORY, a + VECTOR, LE);
                FloatVector v0 = FloatVector.broadcast(F, x[xo + k]);
                l0 = low.fma(v0, l0);
                h0 = high.fma(v0, h0);
                FloatVector v1 = FloatVector.broadcast(F, x[x1 + k]);
                l1 = low.fma(v1, l1);
                h1 = high.fma(v1, h1);
                FloatVector v2 = FloatVector.broadcast(F, x[x2 + k]);
                l2 = low.fma(v2, l2);
                h2 = high.fma(v2, h2);
                FloatVector v3 = FloatVector.broadcast(F, x[x3 + k]);
                l3 = low.fma(v3, l3);
                h3 = high.fma(v3, h3);
                a += 2L * VECTOR;
            }
            FloatVector scaleLow = FloatVector.fromMemorySegment(F, MEMORY, scales, LE);
            FloatVector scaleHigh = FloatVector.fromMemorySegment(F, MEMORY, scales + VECTOR, LE);
            FloatVector minimumLow = FloatVector.fromMemorySegment(F, MEMORY, scales + 2L * VECTOR, LE);
            FloatVector minimumHigh = FloatVector.fromMemorySegment(F, MEMORY, scales + 3L * VECTOR, LE);
            FloatVector s0 = FloatVector.broadcast(F, sums[so + g]);
            minimumLow
                    .fma(s0, scaleLow.fma(l0, FloatVector.fromArray(F, out, oo)))
                    .intoArray(out, oo);
            minimumHigh
                    .fma(s0, scaleHigh.fma(h0, FloatVector.fromArray(F, out, oo + Lanes.COUNT)))
                    .intoArray(out, oo + Lanes.COUNT);
            FloatVector s1 = FloatVector.broadcast(F, sums[so + ss + g]);
            minimumLow
                    .fma(s1, scaleLow.fma(l1, FloatVector.fromArray(F, out, oo + 2 * Lanes.COUNT)))
                    .intoArray(out, oo + 2 * Lanes.COUNT);
            minimumHigh
                    .fma(s1, scaleHigh.fma(h1, FloatVector.fromArray(F, out, oo + 3 * Lanes.COUNT)))
                    .intoArray(out, oo + 3 * Lanes.COUNT);
            FloatVector s2 = FloatVector.broadcast(F, sums[so + 2 * ss + g]);
            minimumLow
                    .fma(s2, scaleLow.fma(l2, FloatVector.fromArray(F, out, oo + 4 * Lanes.COUNT)))
                    .intoArray(out, oo + 4 * Lanes.COUNT);
            minimumHigh
                    .fma(s2, scaleHigh.fma(h2, FloatVector.fromArray(F, out, oo + 5 * Lanes.COUNT)))
                    .intoArray(out, oo + 5 * Lanes.COUNT);
            FloatVector s3 = FloatVector.broadcast(F, sums[so + 3 * ss + g]);
            minimumLow
                    .fma(s3, scaleLow.fma(l3, FloatVector.fromArray(F, out, oo + 6 * Lanes.COUNT)))
                    .intoArray(out, oo + 6 * Lanes.COUNT);
            minimumHigh
                    .fma(s3, scaleHigh.fma(h3, FloatVector.fromArray(F, out, oo + 7 * Lanes.COUNT)))
                    .intoArray(out, oo + 7 * Lanes.COUNT);
            scales += GroupScales.BYTES;
            xo += group;
            x1 += group;
            x2 += group;
            x3 += group;
        }
    }
}
