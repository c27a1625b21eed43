package dev.tandem.engine.sample;

import dev.tandem.engine.execute.ExecutorException;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.engine.request.TokenLogprobs;
import java.util.HashSet;
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
    private final SplittableRandom random;
    private final boolean penalised;
    private final Adjustments adjustments;
    /** Tokens that must not come before {@link SamplingParams#minTokens} are there. */
    private final Set<Integer> ends;
    private int produced;

    /**
     * @param endTokens the model's end-of-sequence tokens
     * @param seed of the random stream, when the parameters name none
     */
    public TokenSampler(SamplingParams params, int[] prompt, Set<Integer> endTokens, long seed) {
        this.params = params;
        this.random = new SplittableRandom(params.seed().orElse(seed));
        boolean repetition = params.repetitionPenalty() != 1;
        this.penalised = repetition || params.presencePenalty() != 0 || params.frequencyPenalty() != 0;
        this.adjustments = new Adjustments(params, prompt);
        this.ends = new HashSet<>(endTokens);
        ends.addAll(params.stopTokenIds());
        if (params.minTokens() > 0) {
            adjustments.forbid(ends);
        }
    }

    /**
     * How a device may choose the next token by itself.
     *
     * @param temperature 0 takes the most probable
     * @param uniform in [0, 1): where in the kept probability mass the draw falls
     * @param logprobs alternatives whose log-probabilities are wanted beside the chosen token's; -1 for none at all
     * @param adjusted whether {@link #adjustments} come first
     * @param foreseeable whether the next draw does not depend on the token that this one yields
     */
    public record Draw(
            double temperature, int topK, double topP, double minP, double uniform, int logprobs, boolean adjusted, boolean foreseeable) {
        public boolean greedy() {
            return temperature == 0;
        }

        /** Whether nothing but the most probable token is wanted. */
        public boolean isMostProbable() {
            return greedy() && !adjusted && logprobs < 0;
        }
    }

    /**
     * The next choice as a device may make it, for which a random number is drawn; empty where {@link #choose} must, because the device takes no
     * adjustments, or because log-probabilities, which are of the logits before, are wanted as well. Once a token, followed by {@link #chosen}.
     *
     * @param most entries of {@link #adjustments} that the device has room for
     */
    public Optional<Draw> draw(int most) {
        boolean adjusted = adjusts();
        if (adjusted && (params.logprobs() >= 0 || adjustments.count() > most)) {
            return Optional.empty();
        }
        double uniform = params.greedy() ? 0 : random.nextDouble();
        return Optional.of(new Draw(
                params.greedy() ? 0 : params.temperature(), params.topK(), params.topP(), params.minP(), uniform, params.logprobs(), adjusted,
                !penalised && produced >= params.minTokens()));
    }

    /** What is done to the next logits first; as they are now. */
    public Adjustments adjustments() {
        return adjustments;
    }

    private boolean adjusts() {
        return penalised || !params.logitBias().isEmpty() || produced < params.minTokens();
    }

    /** Notes that a device chose {@code token} by {@link #draw}, with the log-probabilities that were asked for. */
    public Choice chosen(int token, Optional<TokenLogprobs> logprobs) {
        note(token);
        return new Choice(token, logprobs);
    }

    private void note(int token) {
        if (++produced == params.minTokens()) {
            adjustments.allow(ends);
        }
        if (penalised) {
            adjustments.note(token);
        }
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
        if (adjusts()) {
            adjustments.apply(logits, offset, vocabulary);
        }
        int token = params.greedy()
                ? argmax(logits, offset, vocabulary)
                : draw(logits, offset, vocabulary, scratch);
        note(token);
        return new Choice(token, raw.map(r -> new TokenLogprobs(
                (float) (original[token] - scratch.logSumExp()), r.topTokens(), r.topLogprobs())));
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
