package dev.tandem.model.config;

/** How rotary frequencies are stretched for contexts longer than the model was first trained on. */
public sealed interface RopeScaling {
    record None() implements RopeScaling {}

    record Linear(double factor) implements RopeScaling {}

    /** Llama 3.1's: long wavelengths are divided by {@code factor}, short ones kept, those between blended. */
    record Llama3(double factor, double lowFrequencyFactor, double highFrequencyFactor, int originalContext)
            implements RopeScaling {}

    /** Explicit divisors, one a frequency, as GGUF files carry them. */
    record Divisors(float[] divisors) implements RopeScaling {}

    RopeScaling NONE = new None();
}
