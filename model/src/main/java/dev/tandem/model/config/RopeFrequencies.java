package dev.tandem.model.config;

import dev.tandem.model.ModelException;

/** Computes the RoPE frequency of each rotated pair of dimensions. */
public final class RopeFrequencies {
    private RopeFrequencies() {}

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
            case RopeScaling.Yarn yarn -> scale(frequencies, rope, yarn);
            case RopeScaling.Divisors divisors -> divide(frequencies, rope, divisors);
            case RopeScaling.LongRope longRope -> divide(frequencies, rope, longRope.divisors());
        }
        return frequencies;
    }

    private static void divide(float[] frequencies, Rope.Rotary rope, RopeScaling.Divisors divisors) {
        int pairs = rope.dims() / 2;
        if (divisors.divisors().length != pairs) {
            throw new ModelException("the model has " + divisors.divisors().length
                    + " rope frequency divisors but rotation of " + rope.dims() + " dimensions needs " + pairs);
        }
        for (int i = 0; i < pairs; i++) {
            frequencies[i] /= divisors.divisors()[i];
        }
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

    private static void scale(float[] frequencies, Rope.Rotary rope, RopeScaling.Yarn yarn) {
        double first = index(yarn.betaFast(), rope, yarn);
        double last = index(yarn.betaSlow(), rope, yarn);
        double low = Math.max(yarn.truncate() ? Math.floor(first) : first, 0);
        double high = Math.min(yarn.truncate() ? Math.ceil(last) : last, rope.dims() - 1);
        double width = Math.max(high - low, 0.001);
        for (int i = 0; i < rope.dims() / 2; i++) {
            double divided = Math.clamp((i - low) / width, 0, 1);
            frequencies[i] = (float) (frequencies[i] / yarn.factor() * divided + frequencies[i] * (1 - divided));
        }
    }

    /** The index of the frequency that makes so many rotations over the original context. */
    private static double index(double rotations, Rope.Rotary rope, RopeScaling.Yarn yarn) {
        double wavelength = yarn.originalContext() / (rotations * 2 * Math.PI);
        return rope.dims() * Math.log(wavelength) / (2 * Math.log(rope.theta()));
    }
}
