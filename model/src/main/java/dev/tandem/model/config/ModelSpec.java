package dev.tandem.model.config;

import dev.tandem.model.ModelException;
import java.util.List;
import java.util.Set;

/**
 * What a decoder model computes, as data: each executor, and the reference, is bound from it. How a file names and
 * orders the weights is not part of it; {@code dev.tandem.model.weights.NameTable} says that.
 *
 * <p>All layers have the same sizes; rotation may differ from layer to layer.
 *
 * @param family as the model's file calls it
 * @param tiedHead whether the output head is the embedding table
 * @param window max tokens that a token attends to; 0 for all
 * @param fileType data type of the weights in the file
 */
public record ModelSpec(
        String family,
        int hidden,
        int vocabulary,
        int contextTokens,
        double normEpsilon,
        boolean tiedHead,
        int window,
        List<LayerSpec> layers,
        DataType fileType,
        Set<Integer> endTokens) {
    private static final int MAX_LAYERS = 1 << 12;

    /** @throws ModelException when a size is impossible, or layers differ in size; the message names it */
    public ModelSpec {
        layers = List.copyOf(layers);
        endTokens = Set.copyOf(endTokens);
        requireLayers(layers.size());
        LayerSpec first = layers.getFirst();
        for (LayerSpec layer : layers) {
            LayerSpec.Attention a = layer.attention();
            LayerSpec.Attention b = first.attention();
            if (layer.intermediate() != first.intermediate()
                    || layer.norms() != first.norms()
                    || a.heads() != b.heads()
                    || a.kvHeads() != b.kvHeads()
                    || a.headDim() != b.headDim()
                    || a.qkNorm() != b.qkNorm()
                    || a.qkvBias() != b.qkvBias()) {
                throw new ModelException("layers of different kinds, " + first + " and " + layer
                        + ", are not supported; only their rotation may differ");
            }
        }
        if (layers.stream()
                        .map(layer -> layer.attention().rope())
                        .filter(Rope.Rotary.class::isInstance)
                        .distinct()
                        .count()
                != 1) {
            throw new ModelException("the layers that rotate must be at least one, and rotate alike");
        }
    }

    /** The number of layers, checked before anything is made for each of them. */
    public static int requireLayers(int layers) {
        ModelConfig.requireWithin("num_hidden_layers", layers, MAX_LAYERS);
        return layers;
    }

    /** The attention whose sizes all layers have. */
    public LayerSpec.Attention attention() {
        return layers.getFirst().attention();
    }

    /** The width of gate and up of all layers. */
    public int intermediate() {
        return layers.getFirst().intermediate();
    }

    /** Where all layers have their norms. */
    public NormPlacement norms() {
        return layers.getFirst().norms();
    }

    /** The rotation of the layers that rotate. */
    public Rope.Rotary rotary() {
        return layers.stream()
                .map(layer -> layer.attention().rope())
                .filter(Rope.Rotary.class::isInstance)
                .map(Rope.Rotary.class::cast)
                .findFirst()
                .orElseThrow();
    }

    /** Whether every layer rotates its queries and keys. */
    public boolean rotatesEverywhere() {
        return layers.stream().allMatch(layer -> layer.attention().rope() instanceof Rope.Rotary);
    }

    /**
     * The sizes, for what needs no more than these.
     *
     * @throws ModelException when a size is impossible; the message names it
     */
    public ModelConfig config() {
        LayerSpec.Attention attention = attention();
        return new ModelConfig(
                family,
                hidden,
                layers.size(),
                attention.heads(),
                attention.kvHeads(),
                attention.headDim(),
                intermediate(),
                vocabulary,
                contextTokens,
                normEpsilon,
                rotary(),
                tiedHead,
                attention.qkvBias(),
                attention.qkNorm() == QkNorm.PER_HEAD,
                window,
                fileType,
                endTokens);
    }
}
