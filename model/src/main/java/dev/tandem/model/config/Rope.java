package dev.tandem.model.config;

import dev.tandem.model.ModelException;

/** The rotary position embedding of a layer's queries and keys. */
public sealed interface Rope {
    /** No rotation: the layer sees positions by its causal mask alone (SmolLM3's every fourth layer). */
    record None() implements Rope {}

    /**
     * Rotation of the first {@code dims} dimensions of each head; the others pass unchanged.
     *
     * @param theta base of the frequencies
     * @param magnitude factor of the rotated dimensions of q and k; 1 except with LongRoPE
     */
    record Rotary(int dims, double theta, RopeScaling scaling, double magnitude) implements Rope {
        public Rotary {
            if (!(theta >= 1)) {
                throw new ModelException("rope_theta is " + theta + "; it must be at least 1");
            }
            if (!(magnitude > 0) || Double.isInfinite(magnitude)) {
                throw new ModelException("rope scaling has attention factor " + magnitude + "; it must be positive");
            }
        }

        /** Rotation of whole heads with plain frequencies. */
        public static Rotary plain(int headDim) {
            return new Rotary(headDim, 10_000, RopeScaling.NONE, 1);
        }
    }
}
