package dev.tandem.model.config;

import dev.tandem.model.ModelException;

/** How rotary frequencies are stretched for contexts longer than the model was first trained on. */
public sealed interface RopeScaling {
    record None() implements RopeScaling {}

    record Linear(double factor) implements RopeScaling {
        public Linear {
            requirePositive("factor", factor);
        }
    }

    /** Llama 3.1's: long wavelengths are divided by {@code factor}, short ones kept, those between blended. */
    record Llama3(double factor, double lowFrequencyFactor, double highFrequencyFactor, int originalContext)
            implements RopeScaling {
        public Llama3 {
            requirePositive("factor", factor);
            requirePositive("low_freq_factor", lowFrequencyFactor);
            requirePositive("high_freq_factor", highFrequencyFactor);
            requirePositive("original_max_position_embeddings", originalContext);
            if (highFrequencyFactor <= lowFrequencyFactor) {
                throw new ModelException("rope scaling has high_freq_factor " + highFrequencyFactor
                        + "; it must be above low_freq_factor, " + lowFrequencyFactor);
            }
        }
    }

    /** Explicit divisors, one a frequency, as GGUF files carry them. */
    record Divisors(float[] divisors) implements RopeScaling {
        public Divisors {
            for (float divisor : divisors) {
                requirePositive("a divisor", divisor);
            }
        }
    }

    /** Anything else makes every rotation NaN. */
    private static void requirePositive(String name, double value) {
        if (!(value > 0) || Double.isInfinite(value)) {
            throw new ModelException("rope scaling has " + name + " " + value + "; it must be a positive number");
        }
    }

    RopeScaling NONE = new None();
}
