package dev.tandem.engine.sampling;

import dev.tandem.engine.executor.ExecutorException;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.engine.request.TokenLogprobs;
import java.util.HashSet;
import java.util.Optional;
import java.util.Set;
import java.util.SplittableRandom;

/**
 * Chooses one sequence's next tokens. Holds what the choice depends on besides the logits: the random stream, the
 * tokens seen, the number produced. Order as in vLLM: log-probabilities of the raw logits; bias and penalties;
 * temperature; min-p, top-k, then top-p of what top-k left; one draw.
 *
 * <p>A draw takes one random number per token and walks the kept tokens in ascending order of ids. Tokens as probable
 * as the last one that top-k or top-p keeps are kept, too. The GPU's kernel (sample.cu) does the same, so a seeded
 * answer depends neither on the device that samples nor on the log-probabilities that are reported.
 *
 * <p>Owned by: see the package; never two threads at once.
 */
public final class TokenSampler {
    /** Exponents below this give weight 0 in single precision: half of the smallest float is exp(-103.97). */
    private static final float NO_WEIGHT = -104;
    /** Bits of +infinity; those of NaN are larger. */
    private static final int INFINITE = 0x7F800000;
    /** Why a row is lost, on the CPU and on the GPU. */
    public static final String NOT_FINITE = "the model produced logits that are NaN or infinite";

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
        this(params, new Adjustments(params, prompt), endTokens, seed);
    }

    /** @param adjustments made for the same parameters, and the sampler's from here on */
    public TokenSampler(SamplingParams params, Adjustments adjustments, Set<Integer> endTokens, long seed) {
        this.params = params;
        this.random = new SplittableRandom(params.seed().orElse(seed));
        boolean repetition = params.repetitionPenalty() != 1;
        this.penalised = repetition || params.presencePenalty() != 0 || params.frequencyPenalty() != 0;
        this.adjustments = adjustments;
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
            double temperature,
            int topK,
            double topP,
            double minP,
            double uniform,
            int logprobs,
            boolean adjusted,
            boolean foreseeable) {
        public boolean greedy() {
            return temperature == 0;
        }

        /** Whether nothing but the most probable token is wanted. */
        public boolean isMostProbable() {
            return greedy() && !adjusted && logprobs < 0;
        }
    }

    /**
     * The next choice as a device may make it, for which a random number is drawn; empty where {@link #choose} must,
     * because the device takes no adjustments, or because log-probabilities, which are of the logits before, are wanted
     * as well. Once a token, followed by {@link #chosen}.
     *
     * @param max entries of {@link #adjustments} that the device has room for
     */
    public Optional<Draw> draw(int max) {
        boolean adjusted = adjusts();
        if (adjusted && (params.logprobs() >= 0 || adjustments.count() > max)) {
            return Optional.empty();
        }
        return Optional.of(new Draw(
                params.temperature(),
                params.topK(),
                params.topP(),
                params.minP(),
                uniform(),
                params.logprobs(),
                adjusted,
                !penalised && produced >= params.minTokens()));
    }

    /** In [0, 1) and exact in single precision, which devices compute in; 1 would lie beyond every token. */
    private float uniform() {
        return params.greedy() ? 0 : (random.nextInt() >>> 8) * 0x1p-24f;
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
     * Chooses the next token of one row. Every logit of the model must be finite, as on the GPU (kernel
     * {@code argmax}). The adjustments may make -infinity of it afterwards: such a token is never chosen.
     *
     * @param logits one row of at least {@code vocabulary} values from {@code offset}; overwritten
     * @throws ExecutorException when a logit is NaN or infinite before the adjustments, when one is NaN or +infinity
     *     after them, or when all are -infinity then
     */
    public Choice choose(float[] logits, int offset, int vocabulary, SamplingScratch scratch) {
        requireFinite(logits, offset, vocabulary);
        Optional<TokenLogprobs> raw = params.logprobs() < 0
                ? Optional.empty()
                : Optional.of(rawLogprobs(logits, offset, vocabulary, scratch));
        float[] original = raw.isPresent() ? scratch.copyOf(logits, offset, vocabulary) : logits;
        if (adjusts()) {
            adjustments.apply(logits, offset, vocabulary);
        }
        int token = params.greedy() ? argmax(logits, offset, vocabulary) : draw(logits, offset, vocabulary, scratch);
        note(token);
        return new Choice(
                token,
                raw.map(r -> new TokenLogprobs(
                        (float) (original[token] - scratch.logSumExp()), r.topTokens(), r.topLogprobs())));
    }

    private static void requireFinite(float[] logits, int offset, int vocabulary) {
        int largest = 0;
        for (int i = offset; i < offset + vocabulary; i++) {
            largest = Math.max(largest, Float.floatToRawIntBits(logits[i]) & Integer.MAX_VALUE);
        }
        if (largest >= INFINITE) {
            int id = 0;
            while (Float.isFinite(logits[offset + id])) {
                id++;
            }
            throw new ExecutorException(NOT_FINITE + ": token " + id + " has " + logits[offset + id]);
        }
    }

    /**
     * The lowest id among the largest logits.
     *
     * @throws ExecutorException when a logit is NaN, or the largest is infinite
     */
    static int argmax(float[] logits, int offset, int vocabulary) {
        int best = 0;
        float max = Float.NEGATIVE_INFINITY;
        boolean broken = false;
        for (int i = 0; i < vocabulary; i++) {
            float value = logits[offset + i];
            broken |= value != value;
            if (value >= max && Float.compare(value, max) > 0) { // -0 comes before +0, as in the kernel
                max = value;
                best = i;
            }
        }
        if (broken) {
            throw new ExecutorException("the adjusted logits are not numbers (NaN)");
        }
        if (max == Float.POSITIVE_INFINITY) {
            throw new ExecutorException("the adjusted logit of token " + best + " is +infinity");
        }
        if (max == Float.NEGATIVE_INFINITY) {
            throw new ExecutorException("no token may be chosen: all " + vocabulary + " logits are -infinity");
        }
        return best;
    }

    private int draw(float[] logits, int offset, int vocabulary, SamplingScratch scratch) {
        float max = logits[offset + argmax(logits, offset, vocabulary)];
        float inverse = 1 / (float) params.temperature();
        float minP = (float) params.minP();
        float[] weights = scratch.weights(vocabulary);
        for (int i = 0; i < vocabulary; i++) {
            float exponent = (logits[offset + i] - max) * inverse;
            float weight = exponent < NO_WEIGHT ? 0 : (float) Math.exp(exponent);
            weights[i] = weight < minP ? 0 : weight; // relative to the best token's, which is 1
        }
        if (params.topK() > 0 && params.topK() < vocabulary) {
            keepFrom(scratch.topK(logits, offset, vocabulary, params.topK()), logits, offset, weights, vocabulary);
        }
        double total = sum(weights, vocabulary);
        if ((float) params.topP() < 1) {
            double wanted = total * (float) params.topP();
            keepFrom(scratch.topP(logits, offset, vocabulary, weights, wanted), logits, offset, weights, vocabulary);
            total = sum(weights, vocabulary);
        }
        double target = uniform() * total;
        double before = 0;
        int token = -1;
        while (before <= target) { // ends: all weights together are the total, and the target is less
            before += weights[++token];
        }
        return token;
    }

    /** Tokens below the key have no weight any more. */
    private static void keepFrom(int key, float[] logits, int offset, float[] weights, int vocabulary) {
        for (int i = 0; i < vocabulary; i++) {
            if (SamplingScratch.key(logits[offset + i]) < key) {
                weights[i] = 0;
            }
        }
    }

    private static double sum(float[] weights, int vocabulary) {
        double sum = 0;
        for (int i = 0; i < vocabulary; i++) {
            sum += weights[i];
        }
        return sum;
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
