package dev.tandem.cpu.reference;

/**
 * Scalar versions of the kernels in double precision, which tests compare with. Shapes are those of the vector
 * versions; nothing here is meant to be fast.
 */
public final class ReferenceOps {
    private ReferenceOps() {}

    /** Computes {@code x [rows, depth] · wᵀ} as {@code [rows, columns]}, with {@code w [columns, depth]}. */
    public static double[] matmul(float[] x, float[][] w, int rows) {
        int depth = w[0].length;
        double[] out = new double[rows * w.length];
        for (int row = 0; row < rows; row++) {
            for (int column = 0; column < w.length; column++) {
                double sum = 0;
                for (int k = 0; k < depth; k++) {
                    sum += (double) x[row * depth + k] * w[column][k];
                }
                out[row * w.length + column] = sum;
            }
        }
        return out;
    }

    /** Computes {@code x / sqrt(mean(x²) + epsilon) · weight}. */
    public static double[] rmsNorm(float[] x, float[] weight, double epsilon) {
        double squares = 0;
        for (float v : x) {
            squares += (double) v * v;
        }
        double scale = 1 / Math.sqrt(squares / x.length + epsilon);
        double[] out = new double[x.length];
        for (int i = 0; i < x.length; i++) {
            out[i] = x[i] * scale * weight[i];
        }
        return out;
    }

    /** Computes {@code gate · sigmoid(gate) · up}. */
    public static double[] swiGlu(float[] gate, float[] up) {
        double[] out = new double[gate.length];
        for (int i = 0; i < gate.length; i++) {
            out[i] = gate[i] / (1 + Math.exp(-gate[i])) * up[i];
        }
        return out;
    }

    /** Computes {@code gelu(gate) · up}, with GELU's approximation by tanh. */
    public static double[] geGlu(float[] gate, float[] up) {
        double[] out = new double[gate.length];
        for (int i = 0; i < gate.length; i++) {
            double x = gate[i];
            out[i] = x / 2 * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x * x * x))) * up[i];
        }
        return out;
    }

    /** Applies RoPE to one head: rotates each pair (i, i + half) by {@code position · frequencies[i]}. */
    public static double[] rotate(float[] head, float[] frequencies, int position) {
        int half = head.length / 2;
        double[] out = new double[head.length];
        for (int i = 0; i < half; i++) {
            double angle = (double) position * frequencies[i];
            out[i] = head[i] * Math.cos(angle) - head[half + i] * Math.sin(angle);
            out[half + i] = head[half + i] * Math.cos(angle) + head[i] * Math.sin(angle);
        }
        return out;
    }

    /**
     * Computes the attention of one query head over all given tokens.
     *
     * @param query [headDim]
     * @param keys [tokens][headDim]
     * @param values [tokens][headDim]
     */
    public static double[] attention(float[] query, float[][] keys, float[][] values) {
        int headDim = query.length;
        double[] scores = new double[keys.length];
        double max = Double.NEGATIVE_INFINITY;
        for (int t = 0; t < keys.length; t++) {
            for (int d = 0; d < headDim; d++) {
                scores[t] += (double) query[d] * keys[t][d];
            }
            scores[t] /= Math.sqrt(headDim);
            max = Math.max(max, scores[t]);
        }
        double sum = 0;
        double[] out = new double[headDim];
        for (int t = 0; t < keys.length; t++) {
            double weight = Math.exp(scores[t] - max);
            sum += weight;
            for (int d = 0; d < headDim; d++) {
                out[d] += weight * values[t][d];
            }
        }
        for (int d = 0; d < headDim; d++) {
            out[d] /= sum;
        }
        return out;
    }
}
