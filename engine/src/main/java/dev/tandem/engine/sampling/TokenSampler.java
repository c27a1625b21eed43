package dev.tandem.engine.sampling;

import dev.tandem.engine.request.SamplingParams;
import dev.tandem.engine.request.TokenLogprobs;
import java.util.HashSet;
import java.util.Optional;
import java.util.OptionalDouble;
import java.util.Set;
import java.util.SplittableRandom;

/**
 * Chooses the next tokens of one sequence.
 *
 * <p>It holds what the choice depends on besides the logits: the random stream, the tokens seen and the number of
 * output tokens. The order is vLLM's: log-probabilities of the raw logits; bias and penalties; the grammar's bitmask;
 * temperature; min-p; top-k; top-p of what top-k kept; one draw.
 *
 * <p>A draw takes one random number per token and walks the candidates in ascending order of ids. Tokens as probable as
 * the last candidate of top-k or top-p are candidates too. The GPU kernel (sample.cu) does the same. So a seeded output
 * depends neither on the device that samples nor on the log-probabilities that are reported.
 *
 * <p>Owned by: the executor's thread while a step runs, else the engine thread.
 */
public final class TokenSampler {
    /** Exponents below this give weight 0 in single precision, where half of the smallest value is exp(-103.97). */
    private static final float NO_WEIGHT = -104;
    /** Bits of +infinity; those of NaN are larger. */
    private static final int INFINITE = 0x7F800000;
    /** Why a row is lost, on the CPU and on the GPU. */
    public static final String NOT_FINITE = "the model produced logits that are NaN or infinite";

    private static final int[] NONE = {};

    private final SamplingParams params;
    private final SplittableRandom random;
    private final boolean penalised;
    private final Adjustments adjustments;
    /** Tokens that are impossible before {@link SamplingParams#minTokens} output tokens. */
    private final Set<Integer> ends;
    /** Follows the output of a request with a grammar. */
    private final Optional<GrammarMatcher> matcher;

    private int produced;
    /** The random number of a draw that was taken back. */
    private OptionalDouble takenBack = OptionalDouble.empty();

    /**
     * Creates a sampler for a prompt.
     *
     * @param endTokens the model's end-of-sequence tokens
     * @param seed of the random stream, when the parameters have none
     */
    public TokenSampler(SamplingParams params, int[] prompt, Set<Integer> endTokens, long seed) {
        this(params, new Adjustments(params, prompt), params.grammar().map(Grammar::matcher), endTokens, seed);
    }

    /** Creates a sampler that owns the adjustments and the matcher, which are made from the same parameters. */
    public TokenSampler(
            SamplingParams params,
            Adjustments adjustments,
            Optional<GrammarMatcher> matcher,
            Set<Integer> endTokens,
            long seed) {
        this.params = params;
        this.random = new SplittableRandom(params.seed().orElse(seed));
        boolean repetition = params.repetitionPenalty() != 1;
        this.penalised = repetition || params.presencePenalty() != 0 || params.frequencyPenalty() != 0;
        this.adjustments = adjustments;
        this.matcher = matcher;
        this.ends = new HashSet<>(endTokens);
        ends.addAll(params.stopTokenIds());
        if (params.minTokens() > 0) {
            adjustments.forbid(ends);
        }
    }

    /**
     * One draw as data, for a device that samples.
     *
     * @param temperature 0 takes the most probable token
     * @param topK max candidates; 0 for all tokens
     * @param topP probability mass of the candidates
     * @param minP min probability of candidates, relative to the best token's
     * @param uniform in [0, 1): where in the candidates' probability mass the draw falls
     * @param logprobs alternatives whose log-probabilities are reported with the chosen token's; -1 for none at all
     * @param adjusted whether {@link #adjustments} are applied first
     * @param masked whether the bitmask of {@link #matcher} is applied then
     */
    public record Draw(
            double temperature,
            int topK,
            double topP,
            double minP,
            double uniform,
            int logprobs,
            boolean adjusted,
            boolean masked) {
        /** True when the most probable token is taken. */
        public boolean greedy() {
            return temperature == 0;
        }

        /** True when only the most probable token of the raw logits is wanted. */
        public boolean isMostProbable() {
            return greedy() && !adjusted && !masked && logprobs < 0;
        }
    }

    /**
     * The next draw, for a device that samples; it consumes a random number. Call it once per token, then
     * {@link #chosen}.
     *
     * <p>Empty when the engine must sample by {@link #choose}: when the device has no room for the adjustments or the
     * bitmask, or when log-probabilities, which are of the raw logits, are wanted together with one of these.
     *
     * @param max entries of {@link #adjustments} that the device has room for
     * @param maskRoom whether the device has room for a bitmask
     */
    public Optional<Draw> draw(int max, boolean maskRoom) {
        if (!drawsOnDevice(max, maskRoom)) {
            return Optional.empty();
        }
        return Optional.of(new Draw(
                params.temperature(),
                params.topK(),
                params.topP(),
                params.minP(),
                uniform(),
                params.logprobs(),
                adjusts(),
                matcher.isPresent()));
    }

    /** Whether {@link #draw} with the same arguments is not empty; it consumes no random number. */
    public boolean drawsOnDevice(int max, boolean maskRoom) {
        boolean adjusted = adjusts();
        boolean masked = matcher.isPresent();
        return !((adjusted || masked) && params.logprobs() >= 0
                || adjusted && adjustments.count() > max
                || masked && !maskRoom);
    }

    /** Whether the next draw depends on the tokens before it, so that it cannot be made before they are chosen. */
    public boolean dependsOnOutput() {
        return penalised || matcher.isPresent() || produced < params.minTokens();
    }

    /** The next draw, for a device that has no room for bitmasks. */
    public Optional<Draw> draw(int max) {
        return draw(max, false);
    }

    /**
     * Takes back the last draw, whose token was never chosen: the next draw uses its random number. So a seeded output
     * does not depend on a device that began the token and was interrupted.
     */
    public void takeBack(Draw draw) {
        takenBack = OptionalDouble.of(draw.uniform());
    }

    /** In [0, 1) and exact in single precision, in which devices compute; 1 would lie beyond every token. */
    private float uniform() {
        if (params.greedy()) {
            return 0;
        }
        OptionalDouble earlier = takenBack;
        takenBack = OptionalDouble.empty();
        return earlier.isPresent() ? (float) earlier.getAsDouble() : (random.nextInt() >>> 8) * 0x1p-24f;
    }

    /** The biases and penalties that apply to the next logits. */
    public Adjustments adjustments() {
        return adjustments;
    }

    /** Follows the output of a request with a grammar; empty when every token may follow. */
    public Optional<GrammarMatcher> matcher() {
        return matcher;
    }

    /** Frees the matcher's memory: the request has ended. Tokens that are chosen afterwards are discarded. */
    public void close() {
        matcher.ifPresent(GrammarMatcher::close);
    }

    private boolean adjusts() {
        return penalised || !params.logitBias().isEmpty() || produced < params.minTokens();
    }

    /**
     * Records the token that a device chose by {@link #draw}, with the log-probabilities that were asked for.
     *
     * @throws SamplingException when the grammar does not allow the token, or its matcher has failed
     */
    public Choice chosen(int token, Optional<TokenLogprobs> logprobs) {
        note(token);
        return new Choice(token, logprobs);
    }

    /**
     * Takes the tokens that the grammar forces after the chosen one: the model need not be asked for them. They use up
     * as many random numbers as their draws would, so that the output is the same without this call.
     *
     * @return empty where there is a choice, and where log-probabilities are reported, which need the model's logits
     */
    public int[] takeForced() {
        if (matcher.isEmpty()) {
            return NONE;
        }
        int[] forced = params.logprobs() >= 0 ? NONE : matcher.get().acceptForced();
        for (int token : forced) {
            uniform();
            count(token);
        }
        return forced;
    }

    /**
     * Lets a thread compute the bitmask that the next draw needs; without effect where that has been done.
     *
     * @param byBitmask whether the next draw needs one also at temperature 0, because a device makes it
     */
    public void prepare(boolean byBitmask) {
        if (byBitmask || !params.greedy()) {
            matcher.ifPresent(GrammarMatcher::prepareBitmask);
        }
    }

    /**
     * Waits until the next draw has what its grammar's threads compute for it, after {@link #prepare}.
     *
     * @param maxNanos max time to wait; with 0 it only asks
     * @return false when the time did not suffice
     */
    public boolean awaitReady(long maxNanos) {
        return matcher.isEmpty() || matcher.get().awaitReady(maxNanos);
    }

    private void note(int token) {
        matcher.ifPresent(m -> m.accept(token));
        count(token);
    }

    private void count(int token) {
        if (++produced == params.minTokens()) {
            adjustments.allow(ends);
        }
        if (penalised) {
            adjustments.note(token);
        }
    }

    /**
     * Chooses the next token of one row.
     *
     * <p>Every logit of the model must be finite, as on the GPU (kernel {@code argmax}). The adjustments may make
     * -infinity of it afterwards: such a token is never chosen.
     *
     * @param logits one row of at least {@code vocabulary} values from {@code offset}; overwritten
     * @throws SamplingException when a logit is NaN or infinite before the adjustments, when one is NaN or +infinity
     *     after them, when all are -infinity then, or when the grammar's matcher has failed
     */
    public Choice choose(float[] logits, int offset, int vocabulary, SamplingScratch scratch) {
        requireFinite(logits, offset, vocabulary);
        Optional<TokenLogprobs> raw = params.logprobs() < 0
                ? Optional.empty()
                : Optional.of(rawLogprobs(logits, offset, vocabulary, params.logprobs(), scratch));
        float[] original = raw.isPresent() ? scratch.copyOf(logits, offset, vocabulary) : logits;
        if (adjusts()) {
            adjustments.apply(logits, offset, vocabulary);
        }
        int token = params.greedy()
                ? mostProbable(logits, offset, vocabulary, scratch)
                : drawAllowed(logits, offset, vocabulary, scratch);
        note(token);
        return new Choice(
                token,
                raw.map(r -> new TokenLogprobs(
                        (float) (original[token] - scratch.logSumExp()), r.topTokens(), r.topLogprobs())));
    }

    /** The most probable token that the grammar allows: mostly the most probable of all, which needs no bitmask. */
    private int mostProbable(float[] logits, int offset, int vocabulary, SamplingScratch scratch) {
        int token = argmax(logits, offset, vocabulary);
        if (matcher.isEmpty() || matcher.get().allows(token)) {
            return token;
        }
        mask(matcher.get(), logits, offset, vocabulary, scratch);
        return argmax(logits, offset, vocabulary);
    }

    private int drawAllowed(float[] logits, int offset, int vocabulary, SamplingScratch scratch) {
        matcher.ifPresent(m -> mask(m, logits, offset, vocabulary, scratch));
        return draw(logits, offset, vocabulary, scratch);
    }

    /** Sets the logits of tokens that the grammar does not allow to -infinity. */
    private static void mask(
            GrammarMatcher matcher, float[] logits, int offset, int vocabulary, SamplingScratch scratch) {
        int[] bitmask = scratch.bitmask(vocabulary);
        matcher.fillBitmask(bitmask);
        for (int i = 0; i < vocabulary; i++) {
            if ((bitmask[i / 32] >>> i & 1) == 0) {
                logits[offset + i] = Float.NEGATIVE_INFINITY;
            }
        }
    }

    static void requireFinite(float[] logits, int offset, int vocabulary) {
        int largest = 0;
        for (int i = offset; i < offset + vocabulary; i++) {
            largest = Math.max(largest, Float.floatToRawIntBits(logits[i]) & Integer.MAX_VALUE);
        }
        if (largest >= INFINITE) {
            int id = 0;
            while (Float.isFinite(logits[offset + id])) {
                id++;
            }
            throw new SamplingException(NOT_FINITE + ": token " + id + " has " + logits[offset + id]);
        }
    }

    /**
     * The lowest id among the largest logits.
     *
     * @throws SamplingException when a logit is NaN, or the largest is infinite
     */
    static int argmax(float[] logits, int offset, int vocabulary) {
        int best = 0;
        float max = Float.NEGATIVE_INFINITY;
        boolean broken = false;
        for (int i = 0; i < vocabulary; i++) {
            float value = logits[offset + i];
            broken |= Float.isNaN(value);
            if (value >= max && Float.compare(value, max) > 0) { // -0 comes before +0, as in the kernel
                max = value;
                best = i;
            }
        }
        if (broken) {
            throw new SamplingException("the adjusted logits are not numbers (NaN)");
        }
        if (max == Float.POSITIVE_INFINITY) {
            throw new SamplingException("the adjusted logit of token " + best + " is +infinity");
        }
        if (max == Float.NEGATIVE_INFINITY) {
            throw new SamplingException("no token may be chosen: all " + vocabulary + " logits are -infinity");
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
        while (before <= target) { // terminates: the weights add up to the total, and the target is less
            before += weights[++token];
        }
        return token;
    }

    /** Sets the weights of tokens below the key to 0. */
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

    /**
     * The most probable tokens of the raw logits; the scratch then has the logarithm of the sum of all exponentials.
     *
     * @param count of the tokens
     */
    static TokenLogprobs rawLogprobs(float[] logits, int offset, int vocabulary, int count, SamplingScratch scratch) {
        float max = logits[offset + argmax(logits, offset, vocabulary)];
        double sum = 0;
        for (int i = 0; i < vocabulary; i++) {
            sum += Math.exp(logits[offset + i] - max);
        }
        double logSumExp = max + Math.log(sum);
        scratch.logSumExp(logSumExp);
        int[] top = scratch.largest(logits, offset, vocabulary, count);
        float[] values = new float[top.length];
        for (int i = 0; i < top.length; i++) {
            values[i] = (float) (logits[offset + top[i]] - logSumExp);
        }
        return new TokenLogprobs(0, top, values);
    }
}
