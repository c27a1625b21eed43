package dev.tandem.engine.sample;

import dev.tandem.engine.execute.ExecutorException;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.engine.request.TokenLogprobs;
import java.util.BitSet;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.SplittableRandom;

/**
 * Chooses one sequence's next tokens. Holds what the choice depends on besides the logits: the random stream, the
 * tokens seen, the number produced. Order as in vLLM: log-probabilities of the raw logits; bias and penalties;
 * temperature; top-k, top-p, min-p; draw.
 *
 * <p>Owned by: see the package; never two threads at once.
 */
public final class TokenSampler {
    private final SamplingParams params;
    private final Set<Integer> endTokens;
    private final SplittableRandom random;
    private final BitSet promptTokens = new BitSet();
    private final boolean penalised;
    private int[] outputCounts = new int[0];
    private int produced;

    /**
     * @param endTokens the model's end-of-sequence tokens
     * @param seed of the random stream, when the parameters name none
     */
    public TokenSampler(SamplingParams params, int[] prompt, Set<Integer> endTokens, long seed) {
        this.params = params;
        this.endTokens = endTokens;
        this.random = new SplittableRandom(params.seed().orElse(seed));
        boolean repetition = params.repetitionPenalty() != 1;
        this.penalised = repetition || params.presencePenalty() != 0 || params.frequencyPenalty() != 0;
        if (repetition) {
            for (int token : prompt) {
                promptTokens.set(token);
            }
        }
    }

    /**
     * How a device may choose the next token by itself.
     *
     * @param temperature 0 takes the most probable
     * @param uniform in [0, 1): where in the kept probability mass the draw falls
     */
    public record Draw(double temperature, int topK, double topP, double minP, double uniform) {
        public boolean greedy() {
            return temperature == 0;
        }
    }

    /**
     * The next choice where it needs nothing but the logits and a random number, which is drawn; empty where it needs what
     * only {@link #choose} knows: penalties, biases, forbidden ends, log-probabilities. Once a token, followed by {@link #chosen}.
     */
    public Optional<Draw> draw() {
        if (penalised || !params.logitBias().isEmpty() || produced < params.minTokens() || params.logprobs() >= 0) {
            return Optional.empty();
        }
        double uniform = params.greedy() ? 0 : random.nextDouble();
        return Optional.of(new Draw(
                params.greedy() ? 0 : params.temperature(), params.topK(), params.topP(), params.minP(), uniform));
    }

    /** Notes that a device chose {@code token} by {@link #draw}. */
    public Choice chosen(int token) {
        produced++;
        return new Choice(token, Optional.empty());
    }

    /**
     * @param logits one row of at least {@code vocabulary} values from {@code offset}; overwritten
     * @throws ExecutorException when the best logit is not a number
     */
    public Choice choose(float[] logits, int offset, int vocabulary, SamplingScratch scratch) {
        Optional<TokenLogprobs> raw = params.logprobs() < 0
                ? Optional.empty()
                : Optional.of(rawLogprobs(logits, offset, vocabulary, scratch));
        float[] original = raw.isPresent() ? scratch.copyOf(logits, offset, vocabulary) : logits;
        adjust(logits, offset, vocabulary);
        int token = params.greedy()
                ? argmax(logits, offset, vocabulary)
                : draw(logits, offset, vocabulary, scratch);
        produced++;
        if (penalised) {
            if (outputCounts.length == 0) {
                outputCounts = new int[vocabulary];
            }
            outputCounts[token]++;
        }
        return new Choice(token, raw.map(r -> new TokenLogprobs(
                (float) (original[token] - scratch.logSumExp()), r.topTokens(), r.topLogprobs())));
    }

    private void adjust(float[] logits, int offset, int vocabulary) {
        for (Map.Entry<Integer, Float> bias : params.logitBias().entrySet()) {
            if (bias.getKey() < vocabulary) {
                logits[offset + bias.getKey()] += bias.getValue();
            }
        }
        if (penalised) {
            penalise(logits, offset, vocabulary);
        }
        if (produced < params.minTokens()) {
            endTokens.forEach(token -> logits[offset + token] = Float.NEGATIVE_INFINITY);
            params.stopTokenIds().stream()
                    .filter(token -> token < vocabulary)
                    .forEach(token -> logits[offset + token] = Float.NEGATIVE_INFINITY);
        }
    }

    private void penalise(float[] logits, int offset, int vocabulary) {
        float repetition = (float) params.repetitionPenalty();
        float presence = (float) params.presencePenalty();
        float frequency = (float) params.frequencyPenalty();
        for (int token = 0; token < vocabulary; token++) {
            int count = outputCounts.length == 0 ? 0 : outputCounts[token];
            if (count == 0 && !promptTokens.get(token)) {
                continue;
            }
            float logit = logits[offset + token];
            logit = logit > 0 ? logit / repetition : logit * repetition;
            if (count > 0) {
                logit -= presence + frequency * count;
            }
            logits[offset + token] = logit;
        }
    }

    /** The lowest id among the largest logits. */
    static int argmax(float[] logits, int offset, int vocabulary) {
        int best = 0;
        float max = Float.NEGATIVE_INFINITY;
        boolean broken = false;
        for (int i = 0; i < vocabulary; i++) {
            float value = logits[offset + i];
            broken |= value != value;
            if (value > max) {
                max = value;
                best = i;
            }
        }
        if (broken) {
            throw new ExecutorException("the model produced logits that are not numbers (NaN)");
        }
        return best;
    }

    private int draw(float[] logits, int offset, int vocabulary, SamplingScratch scratch) {
        int best = argmax(logits, offset, vocabulary);
        float inverse = (float) (1 / params.temperature());
        float max = logits[offset + best];
        float[] weights = scratch.weights(vocabulary);
        double total = 0;
        for (int i = 0; i < vocabulary; i++) {
            float weight = (float) Math.exp((logits[offset + i] - max) * inverse);
            weights[i] = weight;
            total += weight;
        }
        if (params.minP() > 0) {
            total = dropBelow(weights, vocabulary, (float) params.minP());
        }
        boolean narrow = params.topK() > 0 && params.topK() < vocabulary || params.topP() < 1;
        return narrow
                ? drawFromBest(weights, vocabulary, total, scratch)
                : drawFromAll(weights, vocabulary, total, best);
    }

    /** Weights are relative to the best token's, which is 1: min-p compares with them directly. */
    private static double dropBelow(float[] weights, int vocabulary, float threshold) {
        double total = 0;
        for (int i = 0; i < vocabulary; i++) {
            if (weights[i] < threshold) {
                weights[i] = 0;
            }
            total += weights[i];
        }
        return total;
    }

    private int drawFromAll(float[] weights, int vocabulary, double total, int fallback) {
        double target = random.nextDouble() * total;
        for (int i = 0; i < vocabulary; i++) {
            target -= weights[i];
            if (target < 0) {
                return i;
            }
        }
        return fallback;
    }

    private int drawFromBest(float[] weights, int vocabulary, double total, SamplingScratch scratch) {
        int[] order = scratch.sortedByWeight(weights, vocabulary, params.topK());
        int limit = params.topK() > 0 ? Math.min(params.topK(), order.length) : order.length;
        double kept = 0;
        for (int i = 0; i < limit; i++) {
            kept += weights[order[i]];
        }
        // top-p is taken of what top-k left, as in vLLM
        double wanted = params.topP() * (params.topK() > 0 ? kept : total);
        int count = 0;
        double mass = 0;
        while (count < limit && (count == 0 || mass < wanted)) {
            mass += weights[order[count++]];
        }
        double target = random.nextDouble() * mass;
        for (int i = 0; i < count; i++) {
            target -= weights[order[i]];
            if (target < 0) {
                return order[i];
            }
        }
        return order[0];
    }

    private TokenLogprobs rawLogprobs(float[] logits, int offset, int vocabulary, SamplingScratch scratch) {
        float max = logits[offset + argmax(logits, offset, vocabulary)];
        double sum = 0;
        for (int i = 0; i < vocabulary; i++) {
            sum += Math.exp(logits[offset + i] - max);
        }
        double logSumExp = max + Math.log(sum);
        scratch.logSumExp(logSumExp);
        int[] top = scratch.largest(logits, offset, vocabulary, params.logprobs());
        float[] values = new float[top.length];
        for (int i = 0; i < top.length; i++) {
            values[i] = (float) (logits[offset + top[i]] - logSumExp);
        }
        return new TokenLogprobs(0, top, values);
    }
}
