package dev.tandem.cpu.simd;

import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.VectorOperators;

/**
 * 2^x lane by lane, for softmax and activations. {@code VectorOperators.EXP} is not used because its last bits vary:
 * interpreted code computes it with {@code Math.exp}, and compiled code with the JDK's vector library.
 */
public final class PowerOfTwo {
    /** log2(e): e^x is 2^(x · LOG2_E). */
    public static final double LOG2_E = 1.4426950408889634;
    /** Adding this to a float leaves its nearest integer in the lowest bits of the sum. */
    static final float ROUND = 0x1.8p23f;
    /** The exponent that an IEEE float stores as 0, so that the power is 0. */
    private static final float MIN = -127;
    /** The largest exponent of a finite IEEE float. */
    private static final float MAX = 127;

    private static final int BIAS = 127;
    private static final int MANTISSA_BITS = 23;

    private PowerOfTwo() {}

    /** Computes 2^f for f in [-0.5, 0.5] by a polynomial of degree 5; relative error below 3e-7. */
    static FloatVector ofFraction(FloatVector f) {
        FloatVector p = FloatVector.broadcast(Lanes.F, 1.3333558e-3f);
        p = p.fma(f, FloatVector.broadcast(Lanes.F, 9.618129e-3f));
        p = p.fma(f, FloatVector.broadcast(Lanes.F, 5.550411e-2f));
        p = p.fma(f, FloatVector.broadcast(Lanes.F, 2.402265e-1f));
        p = p.fma(f, FloatVector.broadcast(Lanes.F, 6.931472e-1f));
        return p.fma(f, FloatVector.broadcast(Lanes.F, 1));
    }

    /** Computes 2^x for x up to 0. The result is 0 for x up to -127, including negative infinity. NaN stays NaN. */
    static FloatVector ofNegative(FloatVector x) {
        return bounded(x.max(MIN));
    }

    /** Computes 2^x. The result is 0 for x up to -127, and 2^127 for x from 127 on. NaN stays NaN. */
    static FloatVector of(FloatVector x) {
        return bounded(x.max(MIN).min(MAX));
    }

    private static FloatVector bounded(FloatVector x) {
        FloatVector shifted = x.add(ROUND);
        FloatVector f = x.sub(shifted.sub(ROUND));
        FloatVector scale = shifted.reinterpretAsInts()
                .add(BIAS)
                .lanewise(VectorOperators.LSHL, MANTISSA_BITS)
                .reinterpretAsFloats();
        return ofFraction(f).mul(scale);
    }
}
