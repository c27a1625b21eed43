package dev.tandem.cpu.simd;

import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.VectorOperators;

/**
 * Online softmax over blocks of 64 scores, in powers of two: e^x is 2^(x · log2 e), and the queries are scaled by log2
 * e.
 *
 * <p>Weights are relative to a reference score instead of the largest one. The reference changes only if a weight would
 * exceed 2^8, so most blocks need neither a maximum across lanes nor a rescaling of the sums.
 */
public final class OnlineSoftmax {
    private static final int BLOCK = 64;
    /** The exponent of the smallest weight; smaller weights would not change a sum. */
    private static final float MIN_POWER = -80;
    /** A weight may be up to 2^8: sums stay far from overflow, and are seldom rescaled. */
    private static final float SLACK = 8;

    private static final float MASKED = -1e30f;

    private OnlineSoftmax() {}

    /**
     * Returns the reference score for a block: {@code before}, or the block's largest score if a weight would exceed
     * 2^8.
     *
     * @param s [64] scores from {@code so}; those outside {@code [visible, tokens)} are masked
     * @param before the reference score so far
     */
    public static float reference(float[] s, int so, int visible, int tokens, float before) {
        for (int i = 0; i < visible; i++) {
            s[so + i] = MASKED;
        }
        for (int i = tokens; i < BLOCK; i++) {
            s[so + i] = MASKED;
        }
        FloatVector max = FloatVector.fromArray(Lanes.F, s, so);
        for (int i = Lanes.COUNT; i < BLOCK; i += Lanes.COUNT) {
            max = max.max(FloatVector.fromArray(Lanes.F, s, so + i));
        }
        return max.compare(VectorOperators.GT, before + SLACK).anyTrue()
                ? max.reduceLanes(VectorOperators.MAX)
                : before;
    }

    /**
     * Replaces scores by weights {@code 2^(s - reference + exponent)}, and those outside {@code [visible, tokens)} by
     * 0. The relative error is below 3e-7.
     *
     * @param s [64] scores from {@code so}, as {@link #reference} has masked them; overwritten
     * @param sums [a vector] from {@code lo}; the weights are added to it, lane by lane
     */
    public static void weights(
            float[] s, int so, int visible, int tokens, float reference, int exponent, float[] sums, int lo) {
        FloatVector sum = FloatVector.fromArray(Lanes.F, sums, lo);
        for (int i = 0; i < BLOCK; i += Lanes.COUNT) {
            FloatVector score = FloatVector.fromArray(Lanes.F, s, so + i);
            FloatVector x = score.sub(reference).max(MIN_POWER);
            FloatVector shifted = x.add(PowerOfTwo.ROUND);
            FloatVector fraction = PowerOfTwo.ofFraction(x.sub(shifted.sub(PowerOfTwo.ROUND)));
            FloatVector power = fraction.reinterpretAsInts()
                    .add(shifted.reinterpretAsInts().lanewise(VectorOperators.LSHL, 23))
                    .add(exponent << 23)
                    .reinterpretAsFloats();
            if (i < visible || i + Lanes.COUNT > tokens) {
                power = power.blend(0, score.compare(VectorOperators.EQ, MASKED));
            }
            sum = sum.add(power);
            power.intoArray(s, so + i);
        }
        sum.intoArray(sums, lo);
    }
}
