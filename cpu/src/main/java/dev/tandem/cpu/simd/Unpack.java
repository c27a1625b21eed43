package dev.tandem.cpu.simd;

import dev.tandem.model.config.DataType;
import java.lang.foreign.ValueLayout;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.VectorOperators;

/**
 * Converts 16-bit values to fp32, exactly, and back, rounded to nearest even.
 *
 * <p>fp16 weights must be finite: kernels that widen them in registers turn infinities and NaN into finite numbers,
 * which saves instructions.
 */
public final class Unpack {
    /**
     * fp32's exponent bias minus fp16's is 112. An fp16's bits, shifted to fp32's positions, times this factor give the
     * value, for subnormals as well.
     */
    static final float HALF_BIAS = 0x1p112f;

    static final int HALF_MASK = 0x8FFFE000;

    private Unpack() {}

    /** Loads a vector of bf16 values. */
    static FloatVector bf16(long address) {
        return widen(address).lanewise(VectorOperators.LSHL, 16).reinterpretAsFloats();
    }

    /** Loads a vector of finite fp16 values; turns infinities and NaN into finite numbers. */
    static FloatVector fp16(long address) {
        IntVector bits = (IntVector) Lanes.loadShorts(address).convertShape(VectorOperators.S2I, Lanes.I, 0);
        return bits.lanewise(VectorOperators.LSHL, 13)
                .and(HALF_MASK)
                .reinterpretAsFloats()
                .mul(HALF_BIAS);
    }

    private static IntVector widen(long address) {
        return Lanes.loadShorts(address)
                .convertShape(VectorOperators.ZERO_EXTEND_S2I, Lanes.I, 0)
                .reinterpretAsInts();
    }

    /**
     * Loads a vector of fp16 values; infinities and NaN become NaN. Only these reach 2^16 when widened, so only their
     * product with 2^112 overflows to infinity, and zero times infinity is NaN.
     */
    private static FloatVector fp16OrNaN(long address) {
        FloatVector value = fp16(address);
        return value.mul(HALF_BIAS).fma(FloatVector.zero(Lanes.F), value);
    }

    /**
     * Whether all of {@code count} stored values are finite.
     *
     * @param address of values of the type
     * @param count even
     */
    public static boolean isFinite(DataType type, long address, int count) {
        int exponent = switch (type) {
            case FLOAT32 -> 0x7F800000;
            case BFLOAT16 -> 0x7F807F80;
            case FLOAT16 -> 0x7C007C00;
        };
        int lowest = exponent & ~(exponent << 1);
        int sign = exponent + lowest; // only an exponent of all ones carries into the sign bit
        int words = count * type.bytes() / Integer.BYTES;
        IntVector carried = IntVector.zero(Lanes.I);
        int i = 0;
        for (; i + Lanes.COUNT <= words; i += Lanes.COUNT) {
            carried = carried.or(Lanes.loadInts(address + 4L * i).and(exponent).add(lowest));
        }
        int all = carried.reduceLanes(VectorOperators.OR);
        for (; i < words; i++) {
            all |= (Lanes.MEMORY.get(ValueLayout.JAVA_INT, address + 4L * i) & exponent) + lowest;
        }
        return (all & sign) == 0;
    }

    /**
     * Widens {@code count} stored values to fp32. It may read and write up to one vector more. NaN stays NaN; an
     * infinite fp16 value becomes NaN.
     *
     * @param from address of 16-bit values of the type
     * @param to address of fp32 values
     */
    public static void toFloats(DataType type, long from, int count, long to) {
        switch (type) {
            case FLOAT32 -> throw new IllegalArgumentException("fp32 needs no unpacking");
            case BFLOAT16 -> {
                for (int i = 0; i < count; i += Lanes.COUNT) {
                    bf16(from + 2L * i).intoMemorySegment(Lanes.MEMORY, to + 4L * i, Lanes.LE);
                }
            }
            case FLOAT16 -> {
                for (int i = 0; i < count; i += Lanes.COUNT) {
                    fp16OrNaN(from + 2L * i).intoMemorySegment(Lanes.MEMORY, to + 4L * i, Lanes.LE);
                }
            }
        }
    }

    /**
     * Rounds {@code count} fp32 values to 16 bits, to nearest even; none of them may be NaN.
     *
     * @param from address of fp32 values
     * @param count a multiple of 16
     * @param to address of 16-bit values of the type
     */
    public static void fromFloats(DataType type, long from, int count, long to) {
        switch (type) {
            case FLOAT32 -> throw new IllegalArgumentException("fp32 needs no packing");
            case BFLOAT16 -> {
                for (int i = 0; i < count; i += Lanes.COUNT) {
                    IntVector bits = Lanes.loadInts(from + 4L * i);
                    IntVector even = bits.lanewise(VectorOperators.LSHR, 16).and(1);
                    bits.add(even)
                            .add(0x7FFF)
                            .lanewise(VectorOperators.LSHR, 16)
                            .convertShape(VectorOperators.I2S, Lanes.S, 0)
                            .reinterpretAsShorts()
                            .intoMemorySegment(Lanes.MEMORY, to + 2L * i, Lanes.LE);
                }
            }
            case FLOAT16 -> {
                for (int i = 0; i < count; i++) {
                    short half = Float.floatToFloat16(Lanes.MEMORY.get(ValueLayout.JAVA_FLOAT, from + 4L * i));
                    Lanes.MEMORY.set(ValueLayout.JAVA_SHORT, to + 2L * i, half);
                }
            }
        }
    }

    /** Rounds a value to bf16, to nearest even; NaN stays NaN. */
    public static short toBf16(float value) {
        int bits = Float.floatToRawIntBits(value);
        if ((bits & Integer.MAX_VALUE) > 0x7F800000) {
            return (short) (bits >>> 16 | 0x40);
        }
        return (short) (bits + 0x7FFF + (bits >>> 16 & 1) >>> 16);
    }
}
