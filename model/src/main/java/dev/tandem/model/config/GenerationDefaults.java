package dev.tandem.model.config;

import java.util.Optional;

/** Sampling values the model's authors recommend ({@code generation_config.json}); used where a request is silent. */
public record GenerationDefaults(
        Optional<Double> temperature,
        Optional<Double> topP,
        Optional<Integer> topK,
        Optional<Double> repetitionPenalty) {
    public static final GenerationDefaults NONE =
            new GenerationDefaults(Optional.empty(), Optional.empty(), Optional.empty(), Optional.empty());
}
