package dev.tandem.model.config;

import java.util.Optional;

/** Sampling values from {@code generation_config.json}, used when a request has none. */
public record GenerationDefaults(
        Optional<Double> temperature,
        Optional<Double> topP,
        Optional<Integer> topK,
        Optional<Double> repetitionPenalty) {
    public static final GenerationDefaults NONE =
            new GenerationDefaults(Optional.empty(), Optional.empty(), Optional.empty(), Optional.empty());
}
