package dev.tandem.engine.request;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.Set;

/**
 * How tokens are chosen and when generation ends. Values are validated on construction with vLLM's bounds; a bad one is
 * a {@link RequestException} that names the parameter as OpenAI's API spells it. NaN and infinity are always refused.
 *
 * @param temperature 0 is greedy; a positive value below {@link #MIN_TEMPERATURE} becomes that, as in vLLM
 * @param topK keep the k most probable tokens; 0 keeps all, and so does -1, which becomes 0
 * @param topP keep the smallest set of most probable tokens whose mass reaches this, in (0, 1]
 * @param minP keep tokens at least this fraction as probable as the best one, in [0, 1]
 * @param repetitionPenalty divides positive and multiplies negative logits of tokens seen in prompt or output
 * @param presencePenalty subtracted once from logits of tokens in the output
 * @param frequencyPenalty subtracted per occurrence in the output
 * @param logitBias added to the named tokens' logits; values beyond [-100, 100] become the nearest bound, as in vLLM
 * @param seed makes the draw reproducible; absent: the engine chooses one
 * @param maxTokens generate at most this many; absent: what the prompt leaves of the context
 * @param maxTokensField the request's field that gave maxTokens, which errors name
 * @param minTokens end-of-sequence and stop tokens are impossible, and stop strings are ignored, before this many
 * @param stop strings that end the generation, excluded from the text unless {@code includeStop}
 * @param includeStop whether the text contains the stop string, or the stop token's text, that ended it
 * @param logprobs number of alternatives reported per token; -1 reports nothing
 */
public record SamplingParams(
        double temperature,
        int topK,
        double topP,
        double minP,
        double repetitionPenalty,
        double presencePenalty,
        double frequencyPenalty,
        Map<Integer, Float> logitBias,
        OptionalLong seed,
        OptionalInt maxTokens,
        String maxTokensField,
        int minTokens,
        List<String> stop,
        boolean includeStop,
        Set<Integer> stopTokenIds,
        boolean ignoreEos,
        int logprobs) {

    public static final int MAX_LOGPROBS = 20;
    /** vLLM's: logits times 1 / temperature stay far from overflow. */
    public static final double MIN_TEMPERATURE = 0.01;
    /** OpenAI's and vLLM's. */
    private static final double MAX_TEMPERATURE = 2;
    /** vLLM accepts every positive number; beyond these, float logits may overflow or the division vanish. */
    private static final double MIN_REPETITION_PENALTY = 0.01;

    private static final double MAX_REPETITION_PENALTY = 100;
    private static final float MAX_BIAS = 100;
    /** As many as vLLM's GPU sampler takes per request; each entry costs time in every step. */
    public static final int MAX_BIASED_TOKENS = 1024;
    /** As many as vLLM's GPU sampler takes per request. */
    public static final int MAX_STOP_TOKENS = 128;
    /** Four times OpenAI's; each string costs a few comparisons per output character. */
    public static final int MAX_STOP_STRINGS = 16;
    /** Characters per stop string. So many may be held back from the client, and are kept per running request. */
    public static final int MAX_STOP_LENGTH = 1024;

    public SamplingParams {
        requireRange("temperature", temperature, 0, MAX_TEMPERATURE);
        if (temperature > 0) {
            temperature = Math.max(temperature, MIN_TEMPERATURE);
        }
        if (topK < -1) {
            throw RequestException.bad(
                    "top_k", "top_k is " + topK + "; it must be positive, or 0 or -1 for all tokens");
        }
        topK = Math.max(topK, 0);
        if (!(topP > 0 && topP <= 1)) {
            throw RequestException.bad("top_p", "top_p is " + topP + "; it must lie in (0, 1]");
        }
        requireRange("min_p", minP, 0, 1);
        requireRange("repetition_penalty", repetitionPenalty, MIN_REPETITION_PENALTY, MAX_REPETITION_PENALTY);
        requireRange("presence_penalty", presencePenalty, -2, 2);
        requireRange("frequency_penalty", frequencyPenalty, -2, 2);
        if (maxTokens.isPresent() && maxTokens.getAsInt() < 1) {
            throw RequestException.bad(
                    maxTokensField, maxTokensField + " is " + maxTokens.getAsInt() + "; it must be at least 1");
        }
        if (minTokens < 0) {
            throw RequestException.bad("min_tokens", "min_tokens is " + minTokens + "; it must not be negative");
        }
        if (maxTokens.isPresent() && minTokens > maxTokens.getAsInt()) {
            throw RequestException.bad(
                    "min_tokens",
                    "min_tokens is " + minTokens + "; it must be at most " + maxTokensField + ", which is "
                            + maxTokens.getAsInt());
        }
        checkStops(stop);
        requireCount("stop_token_ids", stopTokenIds.size(), MAX_STOP_TOKENS);
        requireCount("logit_bias", logitBias.size(), MAX_BIASED_TOKENS);
        if (logprobs < -1 || logprobs > MAX_LOGPROBS) {
            throw RequestException.bad(
                    "top_logprobs", "top_logprobs is " + logprobs + "; it must lie in [0, " + MAX_LOGPROBS + "]");
        }
        logitBias = clamped(logitBias);
        stop = List.copyOf(stop);
        stopTokenIds = Set.copyOf(stopTokenIds);
    }

    private static void checkStops(List<String> stop) {
        requireCount("stop", stop.size(), MAX_STOP_STRINGS);
        for (String one : stop) {
            if (one.isEmpty()) {
                throw RequestException.bad("stop", "a stop string is empty; leave it out");
            }
            if (one.length() > MAX_STOP_LENGTH) {
                throw RequestException.bad(
                        "stop",
                        "a stop string has " + one.length() + " characters; each may have " + MAX_STOP_LENGTH
                                + " at most");
            }
        }
    }

    private static Map<Integer, Float> clamped(Map<Integer, Float> logitBias) {
        Map<Integer, Float> result = new HashMap<>();
        logitBias.forEach((token, bias) -> {
            if (!Float.isFinite(bias)) {
                throw RequestException.bad(
                        "logit_bias", "logit_bias of token " + token + " is " + bias + "; it must be a finite number");
            }
            result.put(token, Math.clamp(bias, -MAX_BIAS, MAX_BIAS));
        });
        return Map.copyOf(result);
    }

    private static void requireCount(String name, int count, int max) {
        if (count > max) {
            throw RequestException.bad(name, name + " has " + count + " entries; at most " + max + " are allowed");
        }
    }

    private static void requireRange(String name, double value, double low, double high) {
        if (!(value >= low && value <= high)) {
            throw RequestException.bad(name, name + " is " + value + "; it must lie in [" + low + ", " + high + "]");
        }
    }

    public boolean greedy() {
        return temperature == 0;
    }

    /** The parameters of the {@code index}-th of n choices: the same, with a seed of its own. */
    public SamplingParams forChoice(int index) {
        OptionalLong own = seed.isPresent() ? OptionalLong.of(seed.getAsLong() + index) : seed;
        return new SamplingParams(
                temperature,
                topK,
                topP,
                minP,
                repetitionPenalty,
                presencePenalty,
                frequencyPenalty,
                logitBias,
                own,
                maxTokens,
                maxTokensField,
                minTokens,
                stop,
                includeStop,
                stopTokenIds,
                ignoreEos,
                logprobs);
    }

    /** The same with so many alternatives a token. */
    public SamplingParams withLogprobs(int alternatives) {
        return new SamplingParams(
                temperature,
                topK,
                topP,
                minP,
                repetitionPenalty,
                presencePenalty,
                frequencyPenalty,
                logitBias,
                seed,
                maxTokens,
                maxTokensField,
                minTokens,
                stop,
                includeStop,
                stopTokenIds,
                ignoreEos,
                alternatives);
    }

    public static Builder builder() {
        return new Builder();
    }

    /** Starts from the neutral values: temperature 1, everything else off. */
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

        public Builder temperature(double value) {
            temperature = value;
            return this;
        }

        public Builder topK(int value) {
            topK = value;
            return this;
        }

        public Builder topP(double value) {
            topP = value;
            return this;
        }

        public Builder minP(double value) {
            minP = value;
            return this;
        }

        public Builder repetitionPenalty(double value) {
            repetitionPenalty = value;
            return this;
        }

        public Builder presencePenalty(double value) {
            presencePenalty = value;
            return this;
        }

        public Builder frequencyPenalty(double value) {
            frequencyPenalty = value;
            return this;
        }

        public Builder logitBias(Map<Integer, Float> value) {
            logitBias = value;
            return this;
        }

        /** -1 stands for no seed, as in vLLM. */
        public Builder seed(long value) {
            seed = value == -1 ? OptionalLong.empty() : OptionalLong.of(value);
            return this;
        }

        public Builder maxTokens(int value) {
            return maxTokens(OptionalInt.of(value));
        }

        /** @param value absent: what the prompt leaves of the context */
        public Builder maxTokens(OptionalInt value) {
            maxTokens = value;
            return this;
        }

        /** @param name of the request's field that gave {@link #maxTokens} */
        public Builder maxTokensField(String name) {
            maxTokensField = name;
            return this;
        }

        public Builder minTokens(int value) {
            minTokens = value;
            return this;
        }

        public Builder stop(List<String> value) {
            stop = value;
            return this;
        }

        public Builder includeStop(boolean value) {
            includeStop = value;
            return this;
        }

        public Builder stopTokenIds(Set<Integer> value) {
            stopTokenIds = value;
            return this;
        }

        public Builder ignoreEos(boolean value) {
            ignoreEos = value;
            return this;
        }

        public Builder logprobs(int value) {
            logprobs = value;
            return this;
        }

        public SamplingParams build() {
            return new SamplingParams(
                    temperature,
                    topK,
                    topP,
                    minP,
                    repetitionPenalty,
                    presencePenalty,
                    frequencyPenalty,
                    logitBias,
                    seed,
                    maxTokens,
                    maxTokensField,
                    minTokens,
                    stop,
                    includeStop,
                    stopTokenIds,
                    ignoreEos,
                    logprobs);
        }
    }
}
