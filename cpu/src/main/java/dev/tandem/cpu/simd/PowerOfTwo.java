package dev.tandem.cpu.simd;

import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.VectorOperators;

/**
 * 2^x lane by lane, of which every softmax and activation is made. {@code VectorOperators.EXP} is not used: interpreted
 * code computes it by {@code Math.exp} and compiled code by the JDK's vector library, with other last bits.
 */
public final class PowerOfTwo {
    /** e^x is 2^(x · this). */
    public static final double LOG2_E = 1.4426950408889634;
    /** Added to a float, it leaves the nearest whole number in the lowest bits. */
    static final float ROUND = 0x1.8p23f;
    /** The exponent that an IEEE float stores as 0: the power comes out as 0. */
    private static final float MIN = -127;
    /** The largest stored exponent of a number. */
    private static final float MAX = 127;

    private static final int BIAS = 127;
    private static final int MANTISSA_BITS = 23;

    private PowerOfTwo() {}

    /** 2^f for f in [-0.5, 0.5] by a polynomial of degree 5, relative error below 3e-7. */
    static FloatVector ofFraction(FloatVector f) {
        FloatVector p = FloatVector.broadcast(Lanes.F, 1.3333558e-3f);
        p = p.fma(f, FloatVector.broadcast(Lanes.F, 9.6181291e-3f));
        p = p.fma(f, FloatVector.broadcast(Lanes.F, 5.5504109e-2f));
        p = p.fma(f, FloatVector.broadcast(Lanes.F, 2.4022651e-1f));
        p = p.fma(f, FloatVector.broadcast(Lanes.F, 6.9314718e-1f));
        return p.fma(f, FloatVector.broadcast(Lanes.F, 1));
    }

    /** 2^x for x of at most 0; 0 from -127 down, negative infinity included. NaN stays NaN. */
    static FloatVector ofNegative(FloatVector x) {
        return bounded(x.max(MIN));
    }

    /** 2^x; 0 from -127 down, and no more than 2^127. NaN stays NaN. */
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
