package dev.tandem.model.config;

import dev.tandem.model.ModelException;
import java.util.Arrays;
import java.util.Optional;

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

    /**
     * LongRoPE (Phi-3, Phi-4-mini): a file has short divisors for contexts up to the original one, and long ones. The
     * context that is asked for chooses once, for all positions of all sequences. A sequence that changed divisors on
     * its way would have to compute all of its K again.
     *
     * @param divisors the short or the long ones
     * @param originalContext tokens up to which the short divisors are chosen
     * @param maxContext tokens up to which the long divisors serve
     */
    record LongRope(Divisors divisors, int originalContext, int maxContext) implements RopeScaling {
        /**
         * The usable context: the original one with the short divisors, the whole one with the long divisors.
         *
         * @param requested max tokens of a sequence as the user asks for them; empty for the original context
         */
        public static int contextTokens(int originalContext, int maxContext, Optional<Integer> requested) {
            boolean longer =
                    requested.filter(tokens -> tokens > originalContext).isPresent();
            return longer ? maxContext : Math.min(originalContext, maxContext);
        }

        /**
         * The factor of the rotated dimensions where a file has none, for both kinds of divisors.
         *
         * @param factor how many times the original context the whole context is
         */
        public static double usualMagnitude(double factor, int originalContext) {
            return factor <= 1 ? 1 : Math.sqrt(1 + Math.log(factor) / Math.log(originalContext));
        }

        /** Whether a context takes the long divisors. */
        public boolean isLong(int contextTokens) {
            return contextTokens > originalContext;
        }
    }

    /** Explicit divisors, one per frequency. */
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
