package dev.tandem.library;

import java.util.List;
import java.util.OptionalDouble;
import java.util.OptionalInt;
import java.util.OptionalLong;
import tools.jackson.databind.node.ObjectNode;

/**
 * How tokens are sampled and when an answer ends. An empty value has the default that the model's authors recommend, or
 * else that of OpenAI's API.
 *
 * @param temperature 0 takes the most probable token
 * @param topP samples from the most probable tokens that have this part of the probability
 * @param topK samples from this many most probable tokens
 * @param presencePenalty of tokens that the answer has already
 * @param frequencyPenalty of tokens by how often the answer has them
 * @param seed makes the answer reproducible
 * @param maxTokens of the answer
 * @param stop texts that end the answer, which leaves them out
 */
public record Sampling(
        OptionalDouble temperature,
        OptionalDouble topP,
        OptionalInt topK,
        OptionalDouble presencePenalty,
        OptionalDouble frequencyPenalty,
        OptionalLong seed,
        OptionalInt maxTokens,
        List<String> stop) {
    private static final Sampling DEFAULTS = new Builder().build();

    /** Copies the list. */
    public Sampling {
        stop = List.copyOf(stop);
    }

    /** All defaults. */
    public static Sampling defaults() {
        return DEFAULTS;
    }

    /** The most probable token each time. */
    public static Sampling greedy(int maxTokens) {
        return builder().temperature(0).maxTokens(maxTokens).build();
    }

    /** A builder with all defaults. */
    public static Builder builder() {
        return new Builder();
    }

    /** Writes the values that are not left to the default. */
    void write(ObjectNode request) {
        temperature.ifPresent(value -> request.put("temperature", value));
        topP.ifPresent(value -> request.put("top_p", value));
        topK.ifPresent(value -> request.put("top_k", value));
        presencePenalty.ifPresent(value -> request.put("presence_penalty", value));
        frequencyPenalty.ifPresent(value -> request.put("frequency_penalty", value));
        seed.ifPresent(value -> request.put("seed", value));
        maxTokens.ifPresent(value -> request.put("max_tokens", value));
        if (!stop.isEmpty()) {
            stop.forEach(request.putArray("stop")::add);
        }
    }

    /**
     * Sets values one by one.
     *
     * <p>Owned by: the thread that builds.
     */
    public static final class Builder {
        private OptionalDouble temperature = OptionalDouble.empty();
        private OptionalDouble topP = OptionalDouble.empty();
        private OptionalInt topK = OptionalInt.empty();
        private OptionalDouble presencePenalty = OptionalDouble.empty();
        private OptionalDouble frequencyPenalty = OptionalDouble.empty();
        private OptionalLong seed = OptionalLong.empty();
        private OptionalInt maxTokens = OptionalInt.empty();
        private List<String> stop = List.of();

        private Builder() {}

        /** Sets {@link Sampling#temperature}. */
        public Builder temperature(double value) {
            temperature = OptionalDouble.of(value);
            return this;
        }

        /** Sets {@link Sampling#topP}. */
        public Builder topP(double value) {
            topP = OptionalDouble.of(value);
            return this;
        }

        /** Sets {@link Sampling#topK}. */
        public Builder topK(int value) {
            topK = OptionalInt.of(value);
            return this;
        }

        /** Sets {@link Sampling#presencePenalty}. */
        public Builder presencePenalty(double value) {
            presencePenalty = OptionalDouble.of(value);
            return this;
        }

        /** Sets {@link Sampling#frequencyPenalty}. */
        public Builder frequencyPenalty(double value) {
            frequencyPenalty = OptionalDouble.of(value);
            return this;
        }

        /** Sets {@link Sampling#seed}. */
        public Builder seed(long value) {
            seed = OptionalLong.of(value);
            return this;
        }

        /** Sets {@link Sampling#maxTokens}. */
        public Builder maxTokens(int value) {
            maxTokens = OptionalInt.of(value);
            return this;
        }

        /** Sets {@link Sampling#stop}. */
        public Builder stop(List<String> value) {
            stop = value;
            return this;
        }

        /** The values; the model's own checks come with the request. */
        public Sampling build() {
            return new Sampling(temperature, topP, topK, presencePenalty, frequencyPenalty, seed, maxTokens, stop);
        }
    }
}
