package dev.tandem.engine.request;

import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Set;

/**
 * How tokens are chosen and when generation ends. Values are validated on construction; a bad one is a
 * {@link RequestException} that names the parameter as OpenAI's API spells it.
 *
 * @param temperature 0 is greedy
 * @param topK keep the k most probable tokens; 0 keeps all
 * @param topP keep the smallest set of most probable tokens whose mass reaches this, in (0, 1]
 * @param minP keep tokens at least this fraction as probable as the best one, in [0, 1]
 * @param repetitionPenalty divides positive and multiplies negative logits of tokens seen in prompt or output
 * @param presencePenalty subtracted once from logits of tokens in the output
 * @param frequencyPenalty subtracted per occurrence in the output
 * @param logitBias added to the named tokens' logits
 * @param seed makes the draw reproducible; absent: the engine chooses one
 * @param maxTokens generate at most this many
 * @param minTokens end-of-sequence and stop tokens are impossible before this many
 * @param stop strings that end the generation, excluded from the text unless {@code includeStop}
 * @param logprobs number of alternatives reported a token; -1 reports nothing
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
        int maxTokens,
        int minTokens,
        List<String> stop,
        boolean includeStop,
        Set<Integer> stopTokenIds,
        boolean ignoreEos,
        int logprobs) {

    public static final int MAX_LOGPROBS = 20;
    private static final int MAX_STOP_STRINGS = 16;

    public SamplingParams {
        requireRange("temperature", temperature, 0, 100);
        if (topK < 0) {
            throw RequestException.bad("top_k", "top_k is " + topK + "; it must be 0 (off) or positive");
        }
        if (!(topP > 0 && topP <= 1)) {
            throw RequestException.bad("top_p", "top_p is " + topP + "; it must lie in (0, 1]");
        }
        requireRange("min_p", minP, 0, 1);
        if (!(repetitionPenalty > 0 && repetitionPenalty <= 100)) {
            throw RequestException.bad(
                    "repetition_penalty", "repetition_penalty is " + repetitionPenalty + "; it must lie in (0, 100]");
        }
        requireRange("presence_penalty", presencePenalty, -2, 2);
        requireRange("frequency_penalty", frequencyPenalty, -2, 2);
        if (maxTokens < 1) {
            throw RequestException.bad("max_tokens", "max_tokens is " + maxTokens + "; it must be at least 1");
        }
        if (minTokens < 0 || minTokens > maxTokens) {
            throw RequestException.bad(
                    "min_tokens", "min_tokens is " + minTokens + "; it must lie in [0, max_tokens = " + maxTokens + "]");
        }
        if (stop.size() > MAX_STOP_STRINGS) {
            throw RequestException.bad("stop", stop.size() + " stop strings; at most " + MAX_STOP_STRINGS + " are allowed");
        }
        if (stop.stream().anyMatch(String::isEmpty)) {
            throw RequestException.bad("stop", "a stop string is empty; leave it out");
        }
        if (logprobs < -1 || logprobs > MAX_LOGPROBS) {
            throw RequestException.bad(
                    "top_logprobs", "top_logprobs is " + logprobs + "; it must lie in [0, " + MAX_LOGPROBS + "]");
        }
        for (Map.Entry<Integer, Float> bias : logitBias.entrySet()) {
            requireRange("logit_bias", bias.getValue(), -100, 100);
        }
        logitBias = Map.copyOf(logitBias);
        stop = List.copyOf(stop);
        stopTokenIds = Set.copyOf(stopTokenIds);
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
                temperature, topK, topP, minP, repetitionPenalty, presencePenalty, frequencyPenalty, logitBias, own,
                maxTokens, minTokens, stop, includeStop, stopTokenIds, ignoreEos, logprobs);
    }

    /** The same with so many alternatives a token. */
    public SamplingParams withLogprobs(int alternatives) {
        return new SamplingParams(
                temperature, topK, topP, minP, repetitionPenalty, presencePenalty, frequencyPenalty, logitBias, seed,
                maxTokens, minTokens, stop, includeStop, stopTokenIds, ignoreEos, alternatives);
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
        private int maxTokens = 16;
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

        public Builder seed(long value) {
            seed = OptionalLong.of(value);
            return this;
        }

        public Builder maxTokens(int value) {
            maxTokens = value;
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
                    temperature, topK, topP, minP, repetitionPenalty, presencePenalty, frequencyPenalty, logitBias,
                    seed, maxTokens, minTokens, stop, includeStop, stopTokenIds, ignoreEos, logprobs);
        }
    }
}
