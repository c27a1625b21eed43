package dev.tandem.cpu.simd;

import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.VectorOperators;

/** Softmax block by block, in powers of two: e^x is 2^(x log2 e), and the factor is in the query. */
public final class OnlineSoftmax {
    private static final int BLOCK = 64;
    /** Smaller weights would not change a sum. */
    private static final float MIN_POWER = -80;
    /** Sums of weights stay far from overflow, and what was summed so far is seldom rescaled. */
    private static final float SLACK = 8;

    private static final float MASKED = -1e30f;

    private OnlineSoftmax() {}

    /**
     * What weights of 64 scores, of which the first {@code tokens} count, are to be estimated from: as before, unless a
     * weight would exceed 2^8; then the largest score.
     *
     * @param s [64] from {@code so}; the others are overwritten
     */
    public static float reference(float[] s, int so, int tokens, float before) {
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
     * Scores to weights {@code 2^(s - reference + exponent)}; 0 beyond {@code tokens}; relative error below 3e-7.
     *
     * @param sums [a vector] from {@code lo}: the weights are added, lane by lane
     */
    public static void weights(float[] s, int so, int tokens, float reference, int exponent, float[] sums, int lo) {
        FloatVector sum = FloatVector.fromArray(Lanes.F, sums, lo);
        for (int i = 0; i < BLOCK; i += Lanes.COUNT) {
            FloatVector x =
                    FloatVector.fromArray(Lanes.F, s, so + i).sub(reference).max(MIN_POWER);
            FloatVector shifted = x.add(PowerOfTwo.ROUND);
            FloatVector fraction = PowerOfTwo.ofFraction(x.sub(shifted.sub(PowerOfTwo.ROUND)));
            FloatVector power = fraction.reinterpretAsInts()
                    .add(shifted.reinterpretAsInts().lanewise(VectorOperators.LSHL, 23))
                    .add(exponent << 23)
                    .reinterpretAsFloats();
            if (i + Lanes.COUNT > tokens) {
                power = FloatVector.zero(Lanes.F).blend(power, Lanes.F.indexInRange(i, tokens));
            }
            sum = sum.add(power);
            power.intoArray(s, so + i);
        }
        sum.intoArray(sums, lo);
    }
}
