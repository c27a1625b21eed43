package dev.tandem.model.config;

import dev.tandem.model.ModelException;
import java.util.Arrays;

/** How RoPE frequencies are scaled for contexts longer than the model's original training context. */
public sealed interface RopeScaling {
    record None() implements RopeScaling {}

    record Linear(double factor) implements RopeScaling {
        public Linear {
            requirePositive("factor", factor);
        }
    }

    /** Llama 3.1's scaling: low frequencies are divided by {@code factor}, high ones kept, those between blended. */
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

    /**
     * YaRN: frequencies of short wavelengths are kept, those of long ones divided by {@code factor}, and those between
     * blended by their index.
     *
     * @param betaFast rotations over the original context from which a frequency is kept
     * @param betaSlow rotations over the original context up to which a frequency is divided
     * @param truncate whether the blend begins and ends at whole indices
     */
    record Yarn(double factor, double betaFast, double betaSlow, int originalContext, boolean truncate)
            implements RopeScaling {
        public Yarn {
            requirePositive("factor", factor);
            requirePositive("beta_fast", betaFast);
            requirePositive("beta_slow", betaSlow);
            requirePositive("original_max_position_embeddings", originalContext);
        }

        /** The factor of the rotated dimensions where a file has none. */
        public double usualMagnitude() {
            return factor <= 1 ? 1 : 0.1 * Math.log(factor) + 1;
        }
    }

    /** Explicit divisors, one per frequency: those of GGUF files, and LongRoPE's. */
    record Divisors(float[] divisors) implements RopeScaling {
        public Divisors {
            for (float divisor : divisors) {
                requirePositive("a divisor", divisor);
            }
        }

        @Override
        public boolean equals(Object other) {
            return other instanceof Divisors d && Arrays.equals(divisors, d.divisors);
        }

        @Override
        public int hashCode() {
            return Arrays.hashCode(divisors);
        }
    }

    /** Other values would make every rotation NaN. */
    private static void requirePositive(String name, double value) {
        if (!(value > 0) || Double.isInfinite(value)) {
            throw new ModelException("rope scaling has " + name + " " + value + "; it must be a positive number");
        }
    }

    RopeScaling NONE = new None();
}
