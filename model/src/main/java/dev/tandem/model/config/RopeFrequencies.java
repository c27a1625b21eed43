package dev.tandem.model.config;

import dev.tandem.model.ModelException;

/** Computes the RoPE frequency of each rotated pair of dimensions. */
public final class RopeFrequencies {
    private RopeFrequencies() {}

    /** The frequencies of a model's layers that rotate; see {@link #of(Rope.Rotary, int)}. */
    public static float[] of(ModelConfig config) {
        return of(config.rope(), config.headDim());
    }

    /** The frequencies in radians per position, {@code [headDim / 2]}; 0 for pairs that do not rotate. */
    public static float[] of(Rope.Rotary rope, int headDim) {
        int pairs = rope.dims() / 2;
        float[] frequencies = new float[headDim / 2];
        for (int i = 0; i < pairs; i++) {
            frequencies[i] = (float) (1.0 / Math.pow(rope.theta(), 2.0 * i / rope.dims()));
        }
        switch (rope.scaling()) {
            case RopeScaling.None none -> {}
            case RopeScaling.Linear linear -> {
                for (int i = 0; i < pairs; i++) {
                    frequencies[i] /= (float) linear.factor();
                }
            }
            case RopeScaling.Llama3 llama3 -> {
                for (int i = 0; i < pairs; i++) {
                    frequencies[i] = scale(frequencies[i], llama3);
                }
            }
            case RopeScaling.Divisors divisors -> {
                if (divisors.divisors().length != pairs) {
                    throw new ModelException("the model has " + divisors.divisors().length
                            + " rope frequency divisors but rotation of " + rope.dims() + " dimensions needs " + pairs);
                }
                for (int i = 0; i < pairs; i++) {
                    frequencies[i] /= divisors.divisors()[i];
                }
            }
        }
        return frequencies;
    }

    private static float scale(float frequency, RopeScaling.Llama3 scaling) {
        double wavelength = 2 * Math.PI / frequency;
        double longest = scaling.originalContext() / scaling.lowFrequencyFactor();
        double shortest = scaling.originalContext() / scaling.highFrequencyFactor();
        if (wavelength < shortest) {
            return frequency;
        }
        if (wavelength > longest) {
            return (float) (frequency / scaling.factor());
        }
        double blend = (scaling.originalContext() / wavelength - scaling.lowFrequencyFactor())
                / (scaling.highFrequencyFactor() - scaling.lowFrequencyFactor());
        return (float) ((1 - blend) * frequency / scaling.factor() + blend * frequency);
    }
}
