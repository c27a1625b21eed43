package dev.tandem.cuda.weights;

import dev.tandem.model.config.DataType;

/** Converts between fp32 and the GPU's 16-bit floats. */
public final class HalfFloats {
    private HalfFloats() {}

    /** Rounds to nearest even. */
    public static short narrow(float value, DataType type) {
        if (type == DataType.FLOAT16) {
            return Float.floatToFloat16(value);
        }
        int bits = Float.floatToRawIntBits(value);
        return Float.isNaN(value) ? (short) 0x7fc0 : (short) (bits + 0x7fff + (bits >>> 16 & 1) >>> 16);
    }

    /** Converts exactly. */
    public static float widen(short bits, DataType type) {
        return type == DataType.FLOAT16 ? Float.float16ToFloat(bits) : Float.intBitsToFloat(bits << 16);
    }
}
