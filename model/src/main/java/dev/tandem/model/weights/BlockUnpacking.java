package dev.tandem.model.weights;

import static dev.tandem.model.weights.PlainUnpacking.SHORT;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;

/**
 * Converts one quantised block to fp32, by the layouts of the GGUF format. A block has a scale d and a minimum m, both
 * fp16. Values are q·d or q·d + m; in blocks of 256 values they are q·(d·scale) − dmin·minimum per run of 32 or 16.
 */
final class BlockUnpacking {
    private static final int HALF = 16;

    private BlockUnpacking() {}

    private static float half(MemorySegment data, long at) {
        return Float.float16ToFloat(data.get(SHORT, at));
    }

    private static int unsigned(MemorySegment data, long at) {
        return data.get(ValueLayout.JAVA_BYTE, at) & 0xFF;
    }

    private static int signed(MemorySegment data, long at) {
        return data.get(ValueLayout.JAVA_BYTE, at);
    }

    static void q4_0(MemorySegment data, long at, float[] out, int to) {
        float d = half(data, at);
        for (int i = 0; i < HALF; i++) {
            int q = unsigned(data, at + 2 + i);
            out[to + i] = ((q & 15) - 8) * d;
            out[to + HALF + i] = ((q >> 4) - 8) * d;
        }
    }

    static void q4_1(MemorySegment data, long at, float[] out, int to) {
        float d = half(data, at);
        float m = half(data, at + 2);
        for (int i = 0; i < HALF; i++) {
            int q = unsigned(data, at + 4 + i);
            out[to + i] = (q & 15) * d + m;
            out[to + HALF + i] = (q >> 4) * d + m;
        }
    }

    /** The fifth bits of 32 values: bit i belongs to value i. */
    private static int fifthBits(MemorySegment data, long at) {
        return (data.get(SHORT, at) & 0xFFFF) | (data.get(SHORT, at + 2) << 16);
    }

    static void q5_0(MemorySegment data, long at, float[] out, int to) {
        float d = half(data, at);
        int high = fifthBits(data, at + 2);
        for (int i = 0; i < HALF; i++) {
            int q = unsigned(data, at + 6 + i);
            out[to + i] = (((q & 15) | (high >>> i & 1) << 4) - 16) * d;
            out[to + HALF + i] = (((q >> 4) | (high >>> (i + HALF) & 1) << 4) - 16) * d;
        }
    }

    static void q5_1(MemorySegment data, long at, float[] out, int to) {
        float d = half(data, at);
        float m = half(data, at + 2);
        int high = fifthBits(data, at + 4);
        for (int i = 0; i < HALF; i++) {
            int q = unsigned(data, at + 8 + i);
            out[to + i] = ((q & 15) | (high >>> i & 1) << 4) * d + m;
            out[to + HALF + i] = ((q >> 4) | (high >>> (i + HALF) & 1) << 4) * d + m;
        }
    }

    static void q8_0(MemorySegment data, long at, float[] out, int to) {
        float d = half(data, at);
        for (int i = 0; i < 32; i++) {
            out[to + i] = signed(data, at + 2 + i) * d;
        }
    }

    /** Six-bit scale of run {@code j} of 8 in the 12 bytes at {@code at}. */
    private static int scale(MemorySegment data, long at, int j) {
        return j < 4
                ? unsigned(data, at + j) & 63
                : unsigned(data, at + j + 4) & 15 | unsigned(data, at + j - 4) >> 6 << 4;
    }

    /** Six-bit minimum of run {@code j} of 8. */
    private static int minimum(MemorySegment data, long at, int j) {
        return j < 4
                ? unsigned(data, at + j + 4) & 63
                : unsigned(data, at + j + 4) >> 4 | unsigned(data, at + j) >> 6 << 4;
    }

    static void q4_k(MemorySegment data, long at, float[] out, int to) {
        float d = half(data, at);
        float dmin = half(data, at + 2);
        for (int run = 0; run < 8; run++) {
            float scale = d * scale(data, at + 4, run);
            float minimum = dmin * minimum(data, at + 4, run);
            long quants = at + 16 + run / 2 * 32L;
            int shift = run % 2 * 4;
            for (int i = 0; i < 32; i++) {
                out[to + 32 * run + i] = scale * (unsigned(data, quants + i) >> shift & 15) - minimum;
            }
        }
    }

    static void q5_k(MemorySegment data, long at, float[] out, int to) {
        float d = half(data, at);
        float dmin = half(data, at + 2);
        for (int run = 0; run < 8; run++) {
            float scale = d * scale(data, at + 4, run);
            float minimum = dmin * minimum(data, at + 4, run);
            long quants = at + 48 + run / 2 * 32L;
            int shift = run % 2 * 4;
            for (int i = 0; i < 32; i++) {
                int high = unsigned(data, at + 16 + i) >> run & 1;
                out[to + 32 * run + i] = scale * (unsigned(data, quants + i) >> shift & 15 | high << 4) - minimum;
            }
        }
    }

    static void q6_k(MemorySegment data, long at, float[] out, int to) {
        float d = half(data, at + 208);
        for (int half = 0; half < 2; half++) {
            long low = at + 64L * half;
            long high = at + 128 + 32L * half;
            long scales = at + 192 + 8L * half;
            for (int quarter = 0; quarter < 4; quarter++) {
                for (int i = 0; i < 32; i++) {
                    int nibble = unsigned(data, low + quarter % 2 * 32L + i) >> quarter / 2 * 4 & 15;
                    int q = (nibble | (unsigned(data, high + i) >> 2 * quarter & 3) << 4) - 32;
                    float scale = d * signed(data, scales + 2L * quarter + i / 16);
                    out[to + 128 * half + 32 * quarter + i] = scale * q;
                }
            }
        }
    }
}
