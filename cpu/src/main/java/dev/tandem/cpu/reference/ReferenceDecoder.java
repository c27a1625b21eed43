package dev.tandem.cpu.reference;

import dev.tandem.model.config.LayerSpec;
import dev.tandem.model.config.ModelSpec;
import dev.tandem.model.config.QkNorm;
import dev.tandem.model.config.Rope;
import dev.tandem.model.config.RopeFrequencies;
import dev.tandem.model.weights.Role;
import dev.tandem.model.weights.Tensor;
import dev.tandem.model.weights.Weights;
import java.util.Arrays;

/**
 * Interprets a {@link ModelSpec} with scalar arithmetic in double precision: what executors are compared with. It
 * shares no code with them but the reading of weights and the table of frequencies, and is not meant to be fast.
 */
public final class ReferenceDecoder {
    private final ModelSpec spec;
    private final Weights weights;

    /** @param weights stay open while logits are computed; the caller closes them */
    public ReferenceDecoder(ModelSpec spec, Weights weights) {
        this.spec = spec;
        this.weights = weights;
    }

    /** Computes the logits of every position of a sequence: [tokens][vocabulary]. */
    public double[][] logits(int[] tokens) {
        double[][] rows = new double[tokens.length][];
        float[][] embeddings = matrix(Role.EMBEDDINGS, 0);
        Arrays.setAll(rows, row -> scaled(embeddings[tokens[row]], spec.embeddingScale()));
        for (int layer = 0; layer < spec.layers().size(); layer++) {
            boolean inputs = spec.norms().onInputs();
            boolean outputs = spec.norms().onOutputs();
            double[][] attended = attention(inputs ? norm(rows, Role.ATTENTION_INPUT_NORM, layer) : rows, layer);
            rows = sum(rows, outputs ? norm(attended, Role.ATTENTION_OUTPUT_NORM, layer) : attended);
            double[][] mlp = mlp(inputs ? norm(rows, Role.MLP_INPUT_NORM, layer) : rows, layer);
            rows = sum(rows, outputs ? norm(mlp, Role.MLP_OUTPUT_NORM, layer) : mlp);
        }
        return times(norm(rows, Role.FINAL_NORM, 0), spec.tiedHead() ? embeddings : matrix(Role.HEAD, 0));
    }

    private double[][] attention(double[][] x, int layer) {
        LayerSpec.Attention attention = spec.layers().get(layer).attention();
        double[][] q = projected(x, Role.QUERY, Role.QUERY_NORM, layer);
        double[][] k = projected(x, Role.KEY, Role.KEY_NORM, layer);
        double[][] v = biased(times(x, matrix(Role.VALUE, layer)), Role.VALUE, layer);
        int headDim = attention.headDim();
        int group = attention.heads() / attention.kvHeads();
        double[][] out = new double[x.length][attention.queries()];
        for (int position = 0; position < x.length; position++) {
            for (int head = 0; head < attention.heads(); head++) {
                attend(q[position], head * headDim, k, v, head / group * headDim, position, attention, out[position]);
            }
        }
        return times(out, matrix(Role.OUTPUT, layer));
    }

    /** One query head over the positions that it sees; the head's output is at {@code qo} as well. */
    private static void attend(
            double[] q,
            int qo,
            double[][] k,
            double[][] v,
            int kvo,
            int position,
            LayerSpec.Attention attention,
            double[] out) {
        int headDim = attention.headDim();
        int first = attention.window() == 0 ? 0 : Math.max(0, position - attention.window() + 1);
        double[] scores = new double[position + 1];
        double max = Double.NEGATIVE_INFINITY;
        for (int t = first; t <= position; t++) {
            for (int d = 0; d < headDim; d++) {
                scores[t] += q[qo + d] * k[t][kvo + d];
            }
            scores[t] *= attention.scoreScale();
            max = Math.max(max, scores[t]);
        }
        double sum = 0;
        for (int t = first; t <= position; t++) {
            scores[t] = Math.exp(scores[t] - max);
            sum += scores[t];
        }
        for (int t = first; t <= position; t++) {
            for (int d = 0; d < headDim; d++) {
                out[qo + d] += scores[t] / sum * v[t][kvo + d];
            }
        }
    }

    /** Queries or keys: projection, bias, norm and rotation. */
    private double[][] projected(double[][] x, Role role, Role normRole, int layer) {
        LayerSpec.Attention attention = spec.layers().get(layer).attention();
        double[][] rows = biased(times(x, matrix(role, layer)), role, layer);
        int headDim = attention.headDim();
        int width = attention.qkNorm() == QkNorm.PER_HEAD ? headDim : rows[0].length;
        for (int position = 0; position < rows.length; position++) {
            double[] row = rows[position];
            if (attention.qkNorm() != QkNorm.NONE) {
                float[] weight = matrix(normRole, layer)[0];
                for (int at = 0; at < row.length; at += width) {
                    norm(row, at, weight);
                }
            }
            if (attention.rope() instanceof Rope.Rotary rotary) {
                float[] frequencies = RopeFrequencies.of(rotary, headDim);
                for (int at = 0; at < row.length; at += headDim) {
                    rotate(row, at, headDim, rotary, frequencies, position);
                }
            }
        }
        return rows;
    }

    private static void rotate(
            double[] row, int at, int headDim, Rope.Rotary rotary, float[] frequencies, int position) {
        for (int i = 0; i < rotary.dims() / 2; i++) {
            // angles are fp32 in every executor and in transformers
            float angle = position * frequencies[i];
            double cos = rotary.magnitude() * Math.cos(angle);
            double sin = rotary.magnitude() * Math.sin(angle);
            double a = row[at + i];
            double b = row[at + headDim / 2 + i];
            row[at + i] = a * cos - b * sin;
            row[at + headDim / 2 + i] = b * cos + a * sin;
        }
    }

    private double[][] mlp(double[][] x, int layer) {
        double[][] gate = times(x, matrix(Role.GATE, layer));
        double[][] up = times(x, matrix(Role.UP, layer));
        for (int row = 0; row < gate.length; row++) {
            for (int i = 0; i < gate[row].length; i++) {
                gate[row][i] = activated(gate[row][i]) * up[row][i];
            }
        }
        return times(gate, matrix(Role.DOWN, layer));
    }

    private double activated(double x) {
        return switch (spec.activation()) {
            case SILU -> x / (1 + Math.exp(-x));
            case GELU_TANH -> x / 2 * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x * x * x)));
        };
    }

    private double[][] norm(double[][] x, Role role, int layer) {
        float[] weight = matrix(role, layer)[0];
        double[][] out = new double[x.length][];
        for (int row = 0; row < x.length; row++) {
            out[row] = x[row].clone();
            norm(out[row], 0, weight);
        }
        return out;
    }

    private void norm(double[] x, int at, float[] weight) {
        double squares = 0;
        for (int i = 0; i < weight.length; i++) {
            squares += x[at + i] * x[at + i];
        }
        double scale = 1 / Math.sqrt(squares / weight.length + spec.normEpsilon());
        for (int i = 0; i < weight.length; i++) {
            x[at + i] *= scale * weight[i];
        }
    }

    private double[][] biased(double[][] x, Role role, int layer) {
        String name = role.tensor(layer, "bias");
        if (spec.attention().qkvBias()) {
            float[] bias = weights.vector(name, x[0].length);
            for (double[] row : x) {
                for (int i = 0; i < row.length; i++) {
                    row[i] += bias[i];
                }
            }
        }
        return x;
    }

    private static double[][] times(double[][] x, float[][] w) {
        double[][] out = new double[x.length][w.length];
        for (int row = 0; row < x.length; row++) {
            for (int column = 0; column < w.length; column++) {
                double sum = 0;
                for (int k = 0; k < w[column].length; k++) {
                    sum += x[row][k] * w[column][k];
                }
                out[row][column] = sum;
            }
        }
        return out;
    }

    private static double[][] sum(double[][] a, double[][] b) {
        double[][] out = new double[a.length][a[0].length];
        for (int row = 0; row < a.length; row++) {
            for (int i = 0; i < out[row].length; i++) {
                out[row][i] = a[row][i] + b[row][i];
            }
        }
        return out;
    }

    private static double[] scaled(float[] row, double scale) {
        double[] out = new double[row.length];
        Arrays.setAll(out, i -> row[i] * scale);
        return out;
    }

    private float[][] matrix(Role role, int layer) {
        Tensor tensor = weights.tensor(role.tensor(layer, "weight"));
        float[][] rows = new float[tensor.rows()][tensor.columns()];
        for (int row = 0; row < rows.length; row++) {
            tensor.row(row, rows[row], 0);
        }
        return rows;
    }
}
