package dev.tandem.engine.request;

import dev.tandem.engine.sampling.Grammar;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.Set;

/**
 * How tokens are sampled and when generation ends.
 *
 * <p>{@link Builder#build} validates every value against vLLM's bounds. A value out of bounds, NaN or infinite is a
 * {@link RequestException} that names the parameter as OpenAI's API spells it.
 *
 * <p>Owned by: any thread, immutable.
 */
public final class SamplingParams {
    /** Max alternatives per token, as in OpenAI's API. */
    public static final int MAX_LOGPROBS = 20;
    /** Min positive temperature, as in vLLM: logits times 1 / temperature stay far from overflow. */
    public static final double MIN_TEMPERATURE = 0.01;
    /** OpenAI's and vLLM's bound. */
    private static final double MAX_TEMPERATURE = 2;
    /** vLLM accepts every positive number; beyond these bounds, float logits may overflow or the division vanish. */
    private static final double MIN_REPETITION_PENALTY = 0.01;

    private static final double MAX_REPETITION_PENALTY = 100;
    /** OpenAI's bound of absolute values (ADR 85). */
    private static final float MAX_BIAS = 100;
    /** Max entries of {@link #logitBias}, as in vLLM's GPU sampler; each entry costs time in every step. */
    public static final int MAX_BIASED_TOKENS = 1024;
    /** Max entries of {@link #stopTokenIds}, as in vLLM's GPU sampler. */
    public static final int MAX_STOP_TOKENS = 128;
    /** Max stop strings: four times OpenAI's; each costs up to two comparisons per output character. */
    public static final int MAX_STOP_STRINGS = 16;
    /** Max characters per stop string. As many may be held back from the client, and are kept per running request. */
    public static final int MAX_STOP_LENGTH = 1024;

    private final double temperature;
    private final int topK;
    private final double topP;
    private final double minP;
    private final double repetitionPenalty;
    private final double presencePenalty;
    private final double frequencyPenalty;
    private final Map<Integer, Float> logitBias;
    private final OptionalLong seed;
    private final OptionalInt maxTokens;
    private final String maxTokensField;
    private final int minTokens;
    private final List<String> stop;
    private final boolean includeStop;
    private final Set<Integer> stopTokenIds;
    private final boolean ignoreEos;
    private final int logprobs;
    private final Optional<Grammar> grammar;

    private SamplingParams(Builder builder) {
        requireRange("temperature", builder.temperature, 0, MAX_TEMPERATURE);
        requireRange("min_p", builder.minP, 0, 1);
        requireRange("repetition_penalty", builder.repetitionPenalty, MIN_REPETITION_PENALTY, MAX_REPETITION_PENALTY);
        requireRange("presence_penalty", builder.presencePenalty, -2, 2);
        requireRange("frequency_penalty", builder.frequencyPenalty, -2, 2);
        checkCandidates(builder);
        checkLengths(builder);
        checkStops(builder.stop);
        checkGrammar(builder);
        requireCount("stop_token_ids", builder.stopTokenIds.size(), MAX_STOP_TOKENS);
        checkBiases(builder.logitBias);
        temperature = builder.temperature > 0 ? Math.max(builder.temperature, MIN_TEMPERATURE) : builder.temperature;
        topK = Math.max(builder.topK, 0);
        topP = builder.topP;
        minP = builder.minP;
        repetitionPenalty = builder.repetitionPenalty;
        presencePenalty = builder.presencePenalty;
        frequencyPenalty = builder.frequencyPenalty;
        logitBias = Map.copyOf(builder.logitBias);
        seed = builder.seed;
        maxTokens = builder.maxTokens;
        maxTokensField = builder.maxTokensField;
        minTokens = builder.minTokens;
        stop = List.copyOf(builder.stop);
        includeStop = builder.includeStop;
        stopTokenIds = Set.copyOf(builder.stopTokenIds);
        ignoreEos = builder.ignoreEos;
        logprobs = builder.logprobs;
        grammar = builder.grammar;
    }

    /** Only a grammar knows where its output is complete: there the end of the output is the only possible token. */
    private static void checkGrammar(Builder builder) {
        if (builder.grammar.filter(Grammar::decidesEnd).isEmpty()) {
            return;
        }
        if (builder.ignoreEos) {
            throw RequestException.bad(
                    "ignore_eos", "ignore_eos is true but the output must match a grammar, which ends; leave it out");
        }
        if (builder.minTokens > 0) {
            throw RequestException.bad(
                    "min_tokens",
                    "min_tokens is " + builder.minTokens
                            + " but the output must match a grammar, which decides where it may end; leave it out");
        }
    }

    private static void checkCandidates(Builder builder) {
        if (builder.topK < -1) {
            throw RequestException.bad(
                    "top_k", "top_k is " + builder.topK + "; it must be positive, or 0 or -1 for all tokens");
        }
        if (!(builder.topP > 0 && builder.topP <= 1)) {
            throw RequestException.bad("top_p", "top_p is " + builder.topP + "; it must lie in (0, 1]");
        }
        if (builder.logprobs < -1 || builder.logprobs > MAX_LOGPROBS) {
            throw RequestException.bad(
                    "top_logprobs",
                    "top_logprobs is " + builder.logprobs + "; it must lie in [0, " + MAX_LOGPROBS + "]");
        }
    }

    private static void checkLengths(Builder builder) {
        int min = builder.minTokens;
        int max = builder.maxTokens.orElse(Integer.MAX_VALUE);
        if (max < 1) {
            throw RequestException.bad(
                    builder.maxTokensField, builder.maxTokensField + " is " + max + "; it must be at least 1");
        }
        if (min < 0) {
            throw RequestException.bad("min_tokens", "min_tokens is " + min + "; it must not be negative");
        }
        if (min > max) {
            throw RequestException.bad(
                    "min_tokens",
                    "min_tokens is " + min + "; it must be at most " + builder.maxTokensField + ", which is " + max);
        }
    }

    private static void checkStops(List<String> stop) {
        requireCount("stop", stop.size(), MAX_STOP_STRINGS);
        for (String one : stop) {
            if (one.isEmpty()) {
                throw RequestException.bad("stop", "a stop string is empty; leave it out");
            }
            if (one.length() > MAX_STOP_LENGTH) {
                throw RequestException.bad(
                        "stop", "a stop string has " + one.length() + " characters; the max is " + MAX_STOP_LENGTH);
            }
        }
    }

    private static void checkBiases(Map<Integer, Float> logitBias) {
        requireCount("logit_bias", logitBias.size(), MAX_BIASED_TOKENS);
        logitBias.forEach((token, bias) -> {
            if (!(Math.abs(bias) <= MAX_BIAS)) {
                throw RequestException.bad(
                        "logit_bias",
                        "logit_bias of token " + token + " is " + bias + "; it must lie in [-" + MAX_BIAS + ", "
                                + MAX_BIAS + "]");
            }
        });
    }

    private static void requireCount(String name, int count, int max) {
        if (count > max) {
            throw RequestException.bad(name, name + " has " + count + " entries; the max is " + max);
        }
    }

    private static void requireRange(String name, double value, double low, double high) {
        if (!(value >= low && value <= high)) {
            throw RequestException.bad(name, name + " is " + value + "; it must lie in [" + low + ", " + high + "]");
        }
    }

    /** 0 is greedy; a positive value below {@link #MIN_TEMPERATURE} becomes that value, as in vLLM. */
    public double temperature() {
        return temperature;
    }

    /** Only the k most probable tokens are candidates; 0 keeps all tokens. */
    public int topK() {
        return topK;
    }

    /** Only the most probable tokens that together reach this probability are candidates, in (0, 1]. */
    public double topP() {
        return topP;
    }

    /** Only tokens at least this fraction as probable as the best one are candidates, in [0, 1]. */
    public double minP() {
        return minP;
    }

    /** Divides positive and multiplies negative logits of tokens seen in prompt or output. */
    public double repetitionPenalty() {
        return repetitionPenalty;
    }

    /** Subtracted once from the logits of tokens in the output. */
    public double presencePenalty() {
        return presencePenalty;
    }

    /** Subtracted per occurrence in the output. */
    public double frequencyPenalty() {
        return frequencyPenalty;
    }

    /** Added to the logits of the named tokens, each in [-100, 100]. */
    public Map<Integer, Float> logitBias() {
        return logitBias;
    }

    /** Makes the draw reproducible; the engine chooses one when absent. */
    public OptionalLong seed() {
        return seed;
    }

    /** Max output tokens; when absent, what the prompt leaves of the context. */
    public OptionalInt maxTokens() {
        return maxTokens;
    }

    /** The request's field that gave {@link #maxTokens}, which errors name. */
    public String maxTokensField() {
        return maxTokensField;
    }

    /** Before this many output tokens, end-of-sequence and stop tokens are impossible and stop strings are ignored. */
    public int minTokens() {
        return minTokens;
    }

    /** Strings that end the generation; the text excludes them unless {@link #includeStop}. */
    public List<String> stop() {
        return stop;
    }

    /** Whether the text contains the stop string, or the text of the stop token, that ended it. */
    public boolean includeStop() {
        return includeStop;
    }

    /** Tokens that end the generation. */
    public Set<Integer> stopTokenIds() {
        return stopTokenIds;
    }

    /** Whether end-of-sequence tokens do not end the generation. */
    public boolean ignoreEos() {
        return ignoreEos;
    }

    /** Alternatives reported per token; 0 reports the chosen token alone, -1 nothing. */
    public int logprobs() {
        return logprobs;
    }

    /** What the output must match; empty when every token may follow. */
    public Optional<Grammar> grammar() {
        return grammar;
    }

    /** True when the most probable token is always chosen. */
    public boolean greedy() {
        return temperature == 0;
    }

    /** The parameters of the {@code index}-th of n choices: the same with a seed of its own. */
    public SamplingParams forChoice(int index) {
        Builder builder = new Builder(this);
        builder.seed = seed.isPresent() ? OptionalLong.of(seed.getAsLong() + index) : seed;
        return builder.build();
    }

    /** The same parameters with this many alternatives per token. */
    public SamplingParams withLogprobs(int alternatives) {
        return new Builder(this).logprobs(alternatives).build();
    }

    /** The same parameters with a grammar that the output must match. */
    public SamplingParams withGrammar(Grammar value) {
        return new Builder(this).grammar(Optional.of(value)).build();
    }

    /** The same parameters for the rest of an output that has {@code tokens} already, fewer than its max. */
    public SamplingParams after(int tokens) {
        Builder builder = new Builder(this);
        builder.maxTokens = maxTokens.isPresent() ? OptionalInt.of(maxTokens.getAsInt() - tokens) : maxTokens;
        return builder.minTokens(Math.max(0, minTokens - tokens)).build();
    }

    @Override
    public String toString() {
        return "SamplingParams[temperature=" + temperature
                + ", topK=" + topK
                + ", topP=" + topP
                + ", minP=" + minP
                + ", repetitionPenalty=" + repetitionPenalty
                + ", presencePenalty=" + presencePenalty
                + ", frequencyPenalty=" + frequencyPenalty
                + ", logitBias=" + logitBias
                + ", seed=" + seed
                + ", maxTokens=" + maxTokens
                + ", minTokens=" + minTokens
                + ", stop=" + stop
                + ", includeStop=" + includeStop
                + ", stopTokenIds=" + stopTokenIds
                + ", ignoreEos=" + ignoreEos
                + ", logprobs=" + logprobs
                + ", grammar=" + grammar + "]";
    }

    /** A builder with neutral values: temperature 1, 16 output tokens, everything else off. */
    public static Builder builder() {
        return new Builder();
    }

    /** Collects the parameters of {@link SamplingParams}; each setter replaces the neutral value. */
    public static final class Builder {
        private double temperature = 1;
        private int topK;
        private double topP = 1;
        private double minP;
        private double repetitionPenalty = 1;
        private double presencePenalty;
        private double frequencyPenalty;
        private Map<Integer, Float> logitBias = Map.of();
        private OptionalLong seed = OptionalLong.empty();
        /** vLLM's default. */
        private OptionalInt maxTokens = OptionalInt.of(16);

        private String maxTokensField = "max_tokens";

        private int minTokens;
        private List<String> stop = List.of();
        private boolean includeStop;
        private Set<Integer> stopTokenIds = Set.of();
        private boolean ignoreEos;
        private int logprobs = -1;
        private Optional<Grammar> grammar = Optional.empty();

        private Builder() {}

        private Builder(SamplingParams params) {
            temperature = params.temperature;
            topK = params.topK;
            topP = params.topP;
            minP = params.minP;
            repetitionPenalty = params.repetitionPenalty;
            presencePenalty = params.presencePenalty;
            frequencyPenalty = params.frequencyPenalty;
            logitBias = params.logitBias;
            seed = params.seed;
            maxTokens = params.maxTokens;
            maxTokensField = params.maxTokensField;
            minTokens = params.minTokens;
            stop = params.stop;
            includeStop = params.includeStop;
            stopTokenIds = params.stopTokenIds;
            ignoreEos = params.ignoreEos;
            logprobs = params.logprobs;
            grammar = params.grammar;
        }

        /** Sets {@link SamplingParams#temperature}. */
        public Builder temperature(double value) {
            temperature = value;
            return this;
        }

        /** Sets {@link SamplingParams#topK}; -1 and 0 keep all tokens. */
        public Builder topK(int value) {
            topK = value;
            return this;
        }

        /** Sets {@link SamplingParams#topP}. */
        public Builder topP(double value) {
            topP = value;
            return this;
        }

        /** Sets {@link SamplingParams#minP}. */
        public Builder minP(double value) {
            minP = value;
            return this;
        }

        /** Sets {@link SamplingParams#repetitionPenalty}. */
        public Builder repetitionPenalty(double value) {
            repetitionPenalty = value;
            return this;
        }

        /** Sets {@link SamplingParams#presencePenalty}. */
        public Builder presencePenalty(double value) {
            presencePenalty = value;
            return this;
        }

        /** Sets {@link SamplingParams#frequencyPenalty}. */
        public Builder frequencyPenalty(double value) {
            frequencyPenalty = value;
            return this;
        }

        /** Sets {@link SamplingParams#logitBias}; values beyond [-100, 100] are refused, as by OpenAI's API. */
        public Builder logitBias(Map<Integer, Float> value) {
            logitBias = value;
            return this;
        }

        /** Sets {@link SamplingParams#seed}; -1 stands for no seed, as in vLLM. */
        public Builder seed(long value) {
            seed = value == -1 ? OptionalLong.empty() : OptionalLong.of(value);
            return this;
        }

        /** Sets {@link SamplingParams#maxTokens}. */
        public Builder maxTokens(int value) {
            return maxTokens(OptionalInt.of(value));
        }

        /** Sets {@link SamplingParams#maxTokensField}. */
        public Builder maxTokensField(String value) {
            maxTokensField = value;
            return this;
        }

        /** Sets {@link SamplingParams#maxTokens}; empty stands for what the prompt leaves of the context. */
        public Builder maxTokens(OptionalInt value) {
            maxTokens = value;
            return this;
        }

        /** Sets {@link SamplingParams#minTokens}. */
        public Builder minTokens(int value) {
            minTokens = value;
            return this;
        }

        /** Sets {@link SamplingParams#stop}. */
        public Builder stop(List<String> value) {
            stop = value;
            return this;
        }

        /** Sets {@link SamplingParams#includeStop}. */
        public Builder includeStop(boolean value) {
            includeStop = value;
            return this;
        }

        /** Sets {@link SamplingParams#stopTokenIds}. */
        public Builder stopTokenIds(Set<Integer> value) {
            stopTokenIds = value;
            return this;
        }

        /** Sets {@link SamplingParams#ignoreEos}. */
        public Builder ignoreEos(boolean value) {
            ignoreEos = value;
            return this;
        }

        /** Sets {@link SamplingParams#logprobs}. */
        public Builder logprobs(int value) {
            logprobs = value;
            return this;
        }

        /** Sets {@link SamplingParams#grammar}. */
        public Builder grammar(Optional<Grammar> value) {
            grammar = value;
            return this;
        }

        /**
         * The parameters.
         *
         * @throws RequestException when a value is out of bounds
         */
        public SamplingParams build() {
            return new SamplingParams(this);
        }
    }
}
