package dev.tandem.cpu.simd;

import java.lang.foreign.ValueLayout;

/**
 * The scalar twin of {@link GroupGemv}, {@link GroupGemm} and {@link Int8Kernel}: same layout, same order, therefore
 * the same bits.
 */
final class ScalarGroupGemm {
    private final PackedMatrix.Quantised matrix;
    private final QuantFormat format;

    ScalarGroupGemm(PackedMatrix.Quantised matrix) {
        this.matrix = matrix;
        this.format = matrix.format();
    }

    /** Computes {@code x [rows, depth] · matrix} as {@code [rows, columns]}. */
    float[] multiply(float[] x, int rows) {
        int depth = matrix.depth();
        float[] out = new float[rows * matrix.columns()];
        for (int row = 0; row < rows; row++) {
            for (int column = 0; column < matrix.columns(); column++) {
                float result = 0;
                for (int group = 0; group < depth; group += format.group) {
                    float products = 0;
                    float sum = 0;
                    for (int k = group; k < group + format.group; k++) {
                        products = Math.fma((float) quant(k, column), x[row * depth + k], products);
                        sum += x[row * depth + k];
                    }
                    result = Math.fma(scale(group, column), products, result);
                    result = Math.fma(minimum(group, column), sum, result);
                }
                out[row * matrix.columns() + column] = result;
            }
        }
        return out;
    }

    /** Computes the same with activations rounded to int8. */
    float[] multiplyInt8(float[] x, int rows) {
        int depth = matrix.depth();
        float[] out = new float[rows * matrix.columns()];
        for (int row = 0; row < rows; row++) {
            for (int group = 0; group < depth; group += format.group) {
                int[] inputs = new int[format.group];
                float step = round(x, row * depth + group, inputs);
                for (int column = 0; column < matrix.columns(); column++) {
                    int products = 0;
                    int sum = 0;
                    for (int k = 0; k < format.group; k++) {
                        products += quant(group + k, column) * inputs[k];
                        sum += inputs[k];
                    }
                    int at = row * matrix.columns() + column;
                    out[at] = Math.fma(scale(group, column), products * step, out[at]);
                    out[at] = Math.fma(minimum(group, column), step * sum, out[at]);
                }
            }
        }
        return out;
    }

    /** Rounds a group of inputs, and returns what 1 is worth. */
    private static float round(float[] x, int from, int[] to) {
        float max = 0;
        boolean finite = true;
        for (int i = 0; i < to.length; i++) {
            max = Math.max(max, Math.abs(x[from + i]));
            finite &= Float.isFinite(x[from + i]);
        }
        if (!finite) {
            return Float.NaN;
        }
        if (max < 1e-30f) {
            return 0;
        }
        float inverse = 127 / max;
        for (int i = 0; i < to.length; i++) {
            to[i] = (int) Math.rint(x[from + i] * inverse);
        }
        return max / 127;
    }

    /** The weight as fp32; one rounding, as in a file that is unpacked. */
    float weight(int k, int column) {
        return Math.fma(scale(k, column), (float) quant(k, column), minimum(k, column));
    }

    private int word(int vector, int column) {
        int lane = column % Lanes.PANEL % Lanes.COUNT;
        long at = column / Lanes.PANEL * matrix.panelBytes() + 4L * (vector * Lanes.COUNT + lane);
        return matrix.data().get(ValueLayout.JAVA_INT, at);
    }

    private static int second(int column) {
        return column % Lanes.PANEL / Lanes.COUNT;
    }

    private float half(int vector, int column) {
        return Float.float16ToFloat((short) (word(vector, column) >> 16 * second(column)));
    }

    private int quant(int k, int column) {
        int bits = format.bits;
        if (bits == 6) {
            int first = format.quantVector(matrix.depth(), k / 16 * 16) + second(column);
            int i = k % 16;
            if (i < 15) {
                return word(first + i / 5 * 2, column) >> 6 * (i % 5) & 63;
            }
            int quant = 0;
            for (int w = 0; w < 3; w++) {
                quant |= (word(first + 2 * w, column) >>> 30) << 2 * w;
            }
            return quant;
        }
        int perWord = 32 / bits;
        int word = word(format.quantVector(matrix.depth(), k / perWord * perWord) + second(column), column);
        return word >>> bits * (k % perWord) & (1 << bits) - 1;
    }

    private float scale(int k, int column) {
        int at = format.scaleVector(matrix.depth(), k);
        int d = format.superBlockVector(k);
        return switch (format.scales) {
            case GROUP, GROUP_AND_MINIMUM -> half(at, column);
            case SUPER_BLOCK -> {
                int shift = 16 * (k / format.group % 2) + 8 * second(column);
                yield half(d, column) * (byte) (word(at, column) >> shift);
            }
            case SUPER_BLOCK_AND_MINIMUM -> half(d, column) * (word(at, column) >> 16 * second(column) & 0xFF);
        };
    }

    private float minimum(int k, int column) {
        int at = format.scaleVector(matrix.depth(), k);
        return switch (format.scales) {
            case GROUP, SUPER_BLOCK -> -format.offset * scale(k, column);
            case GROUP_AND_MINIMUM -> half(at + 1, column);
            case SUPER_BLOCK_AND_MINIMUM ->
                -half(format.superBlockVector(k) + 1, column) * (word(at, column) >> 16 * second(column) + 8 & 0xFF);
        };
    }
}
