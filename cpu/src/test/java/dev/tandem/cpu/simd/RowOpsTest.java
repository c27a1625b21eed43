package dev.tandem.cpu.simd;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.data.Offset.offset;

import dev.tandem.cpu.reference.ReferenceOps;
import dev.tandem.model.config.DataType;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Row-wise operations and conversions against their scalar references, for odd and even sizes. */
class RowOpsTest {
    private static float[] random(int count, long seed) {
        SplittableRandom random = new SplittableRandom(seed);
        float[] values = new float[count];
        for (int i = 0; i < count; i++) {
            values[i] = (float) (8 * random.nextDouble() - 4);
        }
        return values;
    }

    private static void assertClose(float[] actual, int from, double[] expected, double tolerance) {
        for (int i = 0; i < expected.length; i++) {
            assertThat((double) actual[from + i]).as("element %d", i).isCloseTo(expected[i], offset(tolerance));
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 15, 16, 17, 64, 100, 576})
    void rmsNormMatches(int size) {
        float[] x = random(size + 3, size);
        float[] weight = random(size, size + 1);
        float[] out = new float[size + 5];
        RowOps.rmsNorm(x, 3, weight, 1e-5f, size, out, 5);
        assertClose(out, 5, ReferenceOps.rmsNorm(Arrays.copyOfRange(x, 3, 3 + size), weight, 1e-5), 1e-5);
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 8, 31, 32, 100, 1536})
    void swiGluMatches(int size) {
        float[] gate = random(size, 1);
        float[] up = random(size, 2);
        float[] out = new float[size];
        RowOps.swiGlu(gate, 0, up, 0, size, out, 0);
        assertClose(out, 0, ReferenceOps.swiGlu(gate, up), 2e-5);
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 16, 37})
    void geGluMatches(int size) {
        float[] gate = random(size, size);
        float[] up = random(size, size + 1);
        float[] out = new float[size];
        RowOps.geGlu(gate, 0, up, 0, size, out, 0);
        assertClose(out, 0, ReferenceOps.geGlu(gate, up), 2e-5);
        float[] large = {-1e20f, -200, 90, 200};
        RowOps.geGlu(large, 0, new float[] {1, 1, 1, 1}, 0, 4, large, 0);
        assertThat(large).containsExactly(new float[] {0, 0, 90, 200}, offset(1e-4f));
    }

    @Test
    void swiGluOfLargeValuesIsFinite() {
        float[] gate = {-200, -90, 90, 200};
        float[] out = new float[4];
        RowOps.swiGlu(gate, 0, new float[] {1, 1, 1, 1}, 0, 4, out, 0);
        assertThat(out).containsExactly(new float[] {0, 0, 90, 200}, offset(1e-4f));
    }

    @ParameterizedTest
    @ValueSource(ints = {8, 24, 64, 80, 128})
    void rotationMatches(int headDim) {
        int position = 77;
        float[] head = random(headDim, headDim);
        float[] frequencies = new float[headDim / 2];
        float[] cos = new float[headDim / 2];
        float[] sin = new float[headDim / 2];
        for (int i = 0; i < frequencies.length; i++) {
            frequencies[i] = (float) Math.pow(10_000, -2.0 * i / headDim);
            cos[i] = (float) Math.cos((double) position * frequencies[i]);
            sin[i] = (float) Math.sin((double) position * frequencies[i]);
        }
        double[] expected = ReferenceOps.rotate(head, frequencies, position);
        RowOps.rotate(head, 0, cos, sin, 0, headDim / 2);
        assertClose(head, 0, expected, 1e-5);
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 16, 17, 33, 500})
    void softmaxIgnoresScoresOutsideTheRange(int size) {
        int padded = Lanes.padded(Math.ceilDiv(size, 16) * 16);
        float[] scores = Arrays.copyOf(random(size, size), padded);
        int first = size / 3;
        Arrays.fill(scores, 0, first, Float.NaN);
        Arrays.fill(scores, size, padded, Float.NaN);
        float[] before = scores.clone();
        float[] maximum = new float[2];
        float sum = RowOps.softmax(scores, 0, first, size, padded, maximum, 1);
        float expected = before[first];
        for (int i = first; i < size; i++) {
            expected = Math.max(expected, before[i]);
        }
        assertThat(maximum).containsExactly(0, expected);
        double total = 0;
        for (int i = first; i < size; i++) {
            total += Math.pow(2, before[i]);
        }
        for (int i = first; i < size; i++) {
            assertThat((double) scores[i] / sum).isCloseTo(Math.pow(2, before[i]) / total, offset(1e-6));
        }
        for (int i = 0; i < padded; i++) {
            if (i >= first && i < size) {
                continue;
            }
            assertThat(scores[i]).isZero();
        }
    }

    @Test
    void nanStaysNan() {
        for (int bits : new int[] {0x7FC00000, 0x7FC00001, 0x7FFFFFFF, 0xFFC00000}) {
            float[] scores = new float[32];
            scores[5] = Float.intBitsToFloat(bits);
            assertThat(RowOps.softmax(scores, 0, 0, 20, 32, new float[1], 0))
                    .as("%x", bits)
                    .isNaN();
            float[] gate = {Float.intBitsToFloat(bits), 1};
            RowOps.swiGlu(gate, 0, new float[] {1, 1}, 0, 2, gate, 0);
            assertThat(gate[0]).as("%x", bits).isNaN();
            assertThat(gate[1]).isCloseTo(0.731059f, offset(1e-6f));
        }
    }

    @Test
    void scoresFarBelowTheMaximumGetWeightZero() {
        float[] scores = new float[32];
        scores[1] = -127;
        scores[2] = -1e6f;
        scores[3] = Float.NEGATIVE_INFINITY;
        assertThat(RowOps.softmax(scores, 0, 0, 4, 32, new float[1], 0)).isEqualTo(1);
        assertThat(Arrays.copyOf(scores, 4)).containsExactly(1, 0, 0, 0);
    }

    @Test
    void bf16RoundsToNearestEven() {
        assertThat(Unpack.toBf16(Float.intBitsToFloat(0x3F808000))).isEqualTo((short) 0x3F80);
        assertThat(Unpack.toBf16(Float.intBitsToFloat(0x3F818000))).isEqualTo((short) 0x3F82);
        assertThat(Unpack.toBf16(Float.intBitsToFloat(0x3F808001))).isEqualTo((short) 0x3F81);
        assertThat(Unpack.toBf16(Float.NaN) & 0x7FFF).isGreaterThan(0x7F80);
    }

    @ParameterizedTest
    @EnumSource(names = {"BFLOAT16", "FLOAT16"})
    void packingRoundsToNearestEven(DataType type) {
        float[] values = random(64, 5);
        // ties in both directions, the smallest value above 1, zeros, a value that rounds up to a power of two
        float[] special = {
            1 + 0x1p-8f, 1 + 3 * 0x1p-8f, 1 + 0x1p-11f, 1 + 3 * 0x1p-11f, 1 + 0x1p-23f, 0, -0f, 1.9999999f
        };
        System.arraycopy(special, 0, values, 0, special.length);
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment from = arena.allocateFrom(ValueLayout.JAVA_FLOAT, values);
            MemorySegment to = arena.allocate(2L * values.length, 64);
            Unpack.fromFloats(type, from.address(), values.length, to.address());
            for (int i = 0; i < values.length; i++) {
                short expected = type == DataType.FLOAT16 ? Float.floatToFloat16(values[i]) : Unpack.toBf16(values[i]);
                assertThat(to.getAtIndex(ValueLayout.JAVA_SHORT, i))
                        .as("%s", values[i])
                        .isEqualTo(expected);
            }
        }
    }

    /** Every fp16 value becomes what the JDK widens it to, and infinities become NaN. */
    @Test
    void fp16IsWidenedExactly() {
        try (Arena arena = Arena.ofConfined()) {
            int count = 1 << 16;
            MemorySegment from = arena.allocate(2L * count, 64);
            for (int i = 0; i < count; i++) {
                from.setAtIndex(ValueLayout.JAVA_SHORT, i, (short) i);
            }
            MemorySegment to = arena.allocate(4L * count, 64);
            Unpack.toFloats(DataType.FLOAT16, from.address(), count, to.address());
            for (int i = 0; i < count; i++) {
                float expected = Float.float16ToFloat((short) i);
                assertThat(Float.floatToIntBits(to.getAtIndex(ValueLayout.JAVA_FLOAT, i)))
                        .as("0x%04x", i)
                        .isEqualTo(Float.floatToIntBits(Float.isFinite(expected) ? expected : Float.NaN));
                boolean finite = Unpack.isFinite(DataType.FLOAT16, from.address() + 2L * (i & ~1), 2);
                assertThat(finite).as("0x%04x", i).isEqualTo(Float.isFinite(expected));
            }
        }
    }
}
