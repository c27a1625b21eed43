package dev.tandem.model.weights;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteOrder;

/** Converts unquantised values to fp32. All files are little-endian. */
final class PlainUnpacking {
    static final ValueLayout.OfFloat FLOAT = ValueLayout.JAVA_FLOAT_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);
    static final ValueLayout.OfShort SHORT = ValueLayout.JAVA_SHORT_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);

    private PlainUnpacking() {}

    static void f32(MemorySegment data, long offset, int elements, float[] out, int to) {
        MemorySegment.copy(data, FLOAT, offset, out, to, elements);
    }

    static void f16(MemorySegment data, long offset, int elements, float[] out, int to) {
        for (int i = 0; i < elements; i++) {
            out[to + i] = Float.float16ToFloat(data.get(SHORT, offset + 2L * i));
        }
    }

    static void bf16(MemorySegment data, long offset, int elements, float[] out, int to) {
        for (int i = 0; i < elements; i++) {
            out[to + i] = Float.intBitsToFloat(data.get(SHORT, offset + 2L * i) << 16);
        }
    }
}
