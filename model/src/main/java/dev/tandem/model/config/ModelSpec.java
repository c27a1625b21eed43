package dev.tandem.model.config;

import dev.tandem.model.ModelException;
import java.util.List;
import java.util.Set;

/**
 * What a decoder model computes, as data: each executor, and the reference, is bound from it. How a file names and
 * orders the weights is not part of it; {@code dev.tandem.model.weights.NameTable} says that.
 *
 * <p>All layers have the same sizes; rotation and window may differ from layer to layer.
 *
 * @param family as the model's file calls it
 * @param embeddingScale factor of the embeddings where the first layer reads them
 * @param tiedHead whether the output head is the embedding table
 * @param fileType data type of the weights in the file
 */
public record ModelSpec(
        String family,
        int hidden,
        int vocabulary,
        int contextTokens,
        double normEpsilon,
        double embeddingScale,
        boolean tiedHead,
        List<LayerSpec> layers,
        DataType fileType,
        Set<Integer> endTokens) {
    private static final int MAX_LAYERS = 1 << 12;
    /** One for the layers with a window and one for those without; each takes room per token of a step. */
    private static final int MAX_ROTATIONS = 2;

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
                    || layer.activation() != first.activation()
                    || layer.norms() != first.norms()
                    || a.heads() != b.heads()
                    || a.kvHeads() != b.kvHeads()
                    || a.headDim() != b.headDim()
                    || Double.compare(a.scoreScale(), b.scoreScale()) != 0
                    || a.qkNorm() != b.qkNorm()
                    || a.qkvBias() != b.qkvBias()) {
                throw new ModelException("layers of different kinds, " + first + " and " + layer
                        + ", are not supported; only rotation and window may differ");
            }
        }
        List<Rope.Rotary> rotations = rotations(layers);
        if (rotations.stream().map(Rope.Rotary::dims).distinct().count() != 1) {
            throw new ModelException(
                    "the layers that rotate must be at least one, and rotate the same number of dimensions");
        }
        if (rotations.size() > MAX_ROTATIONS) {
            throw new ModelException(
                    "the layers rotate in " + rotations.size() + " ways; at most " + MAX_ROTATIONS + " are supported");
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

    /** The function of the gates of all layers. */
    public Activation activation() {
        return layers.getFirst().activation();
    }

    /** The rotations of the layers that rotate, each once; their numbers of dimensions are equal. */
    public List<Rope.Rotary> rotations() {
        return rotations(layers);
    }

    private static List<Rope.Rotary> rotations(List<LayerSpec> layers) {
        return layers.stream()
                .map(layer -> layer.attention().rope())
                .filter(Rope.Rotary.class::isInstance)
                .map(Rope.Rotary.class::cast)
                .distinct()
                .toList();
    }

    /** The rotation of the first layer that rotates. */
    public Rope.Rotary rotary() {
        return rotations().getFirst();
    }

    private List<Integer> windows() {
        List<Integer> windows =
                layers.stream().map(layer -> layer.attention().window()).toList();
        return windows.stream().allMatch(window -> window == 0) ? List.of() : windows;
    }

    /**
     * The sizes, for what needs no more than these.
     *
     * @throws ModelException when a size or a factor is impossible; the message names it
     */
    public ModelConfig config() {
        LayerSpec.Attention attention = attention();
        ModelConfig config = new ModelConfig(
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
                windows(),
                fileType,
                endTokens);
        requirePositive("the factor of attention scores", attention.scoreScale());
        requirePositive("the factor of embeddings", embeddingScale);
        return config;
    }

    private static void requirePositive(String name, double value) {
        if (!(value > 0) || Double.isInfinite(value)) {
            throw new ModelException(name + " is " + value + "; it must be a positive number");
        }
    }
}
