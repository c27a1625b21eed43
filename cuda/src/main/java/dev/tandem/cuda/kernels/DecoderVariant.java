package dev.tandem.cuda.kernels;

import dev.tandem.model.config.Activation;
import dev.tandem.model.config.LayerSpec;
import dev.tandem.model.config.ModelConfig;
import dev.tandem.model.config.ModelSpec;
import dev.tandem.model.config.NormPlacement;
import dev.tandem.model.config.QkNorm;
import dev.tandem.model.config.Rope;
import dev.tandem.model.config.RopeFrequencies;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;

/**
 * What the kernels of a model compute, beside its sizes and windows.
 *
 * @param embeddingScale factor of the embeddings
 * @param queryScale factor of the queries, where scores have another one than 1 / sqrt(headDim)
 * @param ropes how each layer rotates
 */
public record DecoderVariant(
        NormPlacement norms,
        QkNorm qkNorm,
        Activation activation,
        double embeddingScale,
        double queryScale,
        List<Rope> ropes) {
    /** Copies the list. */
    public DecoderVariant {
        ropes = List.copyOf(ropes);
    }

    /** What a specification asks for. */
    static DecoderVariant of(ModelSpec spec) {
        LayerSpec.Attention attention = spec.attention();
        return new DecoderVariant(
                spec.norms(),
                attention.qkNorm(),
                spec.activation(),
                spec.embeddingScale(),
                attention.scoreScale() / LayerSpec.Attention.usualScale(attention.headDim()),
                spec.layers().stream().map(layer -> layer.attention().rope()).toList());
    }

    /** What Llama and Qwen compute with such a configuration. */
    static DecoderVariant llama(ModelConfig config) {
        return new DecoderVariant(
                NormPlacement.BEFORE,
                config.qkNorm() ? QkNorm.PER_HEAD : QkNorm.NONE,
                Activation.SILU,
                1,
                1,
                Collections.nCopies(config.layers(), config.rope()));
    }

    /** The ways in which layers rotate, each once. Not to rotate is one of them: its frequencies are zero. */
    public List<Rope> rotations() {
        return ropes.stream().distinct().toList();
    }

    /** Whether a rotation has a factor of cosine and sine. */
    boolean hasRotationFactors() {
        return ropes.stream().anyMatch(rope -> rope instanceof Rope.Rotary rotary && rotary.magnitude() != 1);
    }

    /**
     * What {@code embed} reads: the frequencies of all rotations, {@code [rotations, headDim / 2]}. Behind them, where
     * a rotation has a factor of cosine and sine, are as many factors.
     */
    public float[] rotationTable(int headDim) {
        List<Rope> rotations = rotations();
        int half = headDim / 2;
        int values = rotations.size() * half;
        float[] table = new float[hasRotationFactors() ? 2 * values : values];
        Arrays.fill(table, values, table.length, 1);
        for (int i = 0; i < rotations.size(); i++) {
            if (rotations.get(i) instanceof Rope.Rotary rotary) {
                System.arraycopy(RopeFrequencies.of(rotary, headDim), 0, table, i * half, half);
                if (hasRotationFactors()) {
                    int at = values + i * half;
                    Arrays.fill(table, at, at + rotary.dims() / 2, (float) rotary.magnitude());
                }
            }
        }
        return table;
    }
}
