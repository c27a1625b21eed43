package dev.tandem.engine.sampling;

import java.util.Comparator;
import java.util.List;
import java.util.stream.IntStream;

/**
 * The algorithm of the sampling kernel (sample.cu) without its parallelism, with which both samplers are compared. Its
 * input is adjusted logits.
 */
public final class SamplingReference {
    private SamplingReference() {}

    /** The parameters of a draw, in single precision as in the kernel. */
    public record Parameters(float temperature, int topK, float topP, float minP, float uniform) {
        public static Parameters of(TokenSampler.Draw draw) {
            return new Parameters(
                    (float) draw.temperature(), draw.topK(), (float) draw.topP(), (float) draw.minP(), (float)
                            draw.uniform());
        }
    }

    /** Draws a token; no logit is NaN, and not all are -infinity. */
    public static int token(float[] logits, Parameters parameters) {
        // Float.compare orders as the kernel's keys do: -0 comes before +0
        List<Integer> descending = IntStream.range(0, logits.length)
                .boxed()
                .sorted(Comparator.comparing((Integer id) -> logits[id], Comparator.reverseOrder())
                        .thenComparing(Comparator.naturalOrder()))
                .toList();
        int best = descending.getFirst();
        if (parameters.temperature() == 0) {
            return best;
        }
        float inverse = 1 / parameters.temperature();
        float[] weights = new float[logits.length];
        for (int id = 0; id < logits.length; id++) {
            float weight = (float) Math.exp((logits[id] - logits[best]) * inverse);
            weights[id] = weight < parameters.minP() ? 0 : weight;
        }
        if (parameters.topK() > 0 && parameters.topK() < logits.length) {
            keepFrom(logits, weights, logits[descending.get(parameters.topK() - 1)]);
        }
        if (parameters.topP() < 1) {
            keepFrom(logits, weights, lastOfMass(logits, weights, descending, sum(weights) * parameters.topP()));
        }
        double target = parameters.uniform() * sum(weights);
        double before = 0;
        int token = -1;
        while (before <= target) {
            before += weights[++token];
        }
        return token;
    }

    /** Tokens with the same probability as the last kept token are kept, too. */
    private static void keepFrom(float[] logits, float[] weights, float last) {
        for (int id = 0; id < logits.length; id++) {
            if (Float.compare(logits[id], last) < 0) {
                weights[id] = 0;
            }
        }
    }

    private static double sum(float[] weights) {
        double sum = 0;
        for (float weight : weights) {
            sum += weight;
        }
        return sum;
    }

    /** The logit at which the mass over descending logits reaches what is wanted, counted in units of 2^-32. */
    private static float lastOfMass(float[] logits, float[] weights, List<Integer> descending, double wanted) {
        double mass = 0;
        float last = logits[descending.getFirst()];
        for (int at = 0; at < descending.size(); ) {
            float logit = logits[descending.get(at)];
            long equal = 0;
            for (;
                    at < descending.size()
                            && logits[descending.get(at)] == logit
                            && Float.compare(logits[descending.get(at)], logit) == 0;
                    at++) {
                equal += (long) (weights[descending.get(at)] * 4294967296f);
            }
            if (equal > 0) {
                last = logit;
                mass += equal;
                if (mass >= wanted * 4294967296.0) {
                    break;
                }
            }
        }
        return last;
    }
}
