package dev.tandem.model.config;

import dev.tandem.model.ModelException;
import java.util.List;
import java.util.Set;

/**
 * The sizes of a decoder model, and the variants that all of its layers share; see {@link ModelSpec}.
 *
 * @param family name in the model file
 * @param headDim dimensions per head; not always hidden / heads
 * @param rope rotation of the first layer that rotates
 * @param tiedEmbeddings whether the output head is the embedding table
 * @param qkvBias whether the q, k and v projections have a bias (Qwen2)
 * @param qkNorm whether q and k heads pass an RMS norm before RoPE (Qwen3)
 * @param windows of each layer, see {@link #window}; empty if no layer has one
 * @param fileType data type of the weights in the file
 */
public record ModelConfig(
        String family,
        int hidden,
        int layers,
        int heads,
        int kvHeads,
        int headDim,
        int intermediate,
        int vocabulary,
        int contextTokens,
        double normEpsilon,
        Rope.Rotary rope,
        boolean tiedEmbeddings,
        boolean qkvBias,
        boolean qkNorm,
        List<Integer> windows,
        DataType fileType,
        Set<Integer> endTokens) {
    public ModelConfig {
        requireWithin("hidden_size", hidden, 1 << 20);
        requireWithin("num_hidden_layers", layers, 1 << 12);
        requireWithin("num_attention_heads", heads, 1 << 12);
        requireWithin("num_key_value_heads", kvHeads, 1 << 12);
        requireWithin("head_dim", headDim, 1 << 12);
        requireWithin("intermediate_size", intermediate, 1 << 24);
        requireWithin("vocab_size", vocabulary, 1 << 24);
        requireWithin("max_position_embeddings", contextTokens, 1 << 30);
        if (heads % kvHeads != 0) {
            throw new ModelException(heads + " attention heads do not divide into " + kvHeads + " KV heads");
        }
        if (headDim % 2 != 0) {
            throw new ModelException("head_dim is " + headDim + "; rotary embedding needs an even number");
        }
        if (!(normEpsilon > 0 && normEpsilon < 1)) {
            throw new ModelException("rms_norm_eps is " + normEpsilon + "; it must lie in (0, 1)");
        }
        if (rope.dims() < 2 || rope.dims() % 2 != 0 || rope.dims() > headDim) {
            throw new ModelException("rotation of " + rope.dims() + " dimensions of heads of " + headDim
                    + " is impossible; it must be an even number from 2 to " + headDim);
        }
        windows = List.copyOf(windows);
        if (!windows.isEmpty() && windows.size() != layers) {
            throw new ModelException(windows.size() + " sliding windows are given for " + layers + " layers");
        }
        endTokens = Set.copyOf(endTokens);
    }

    /**
     * The limits keep products of sizes from overflowing. They are at least 16 times the sizes of the largest known
     * models.
     */
    static void requireWithin(String name, int value, int max) {
        if (value < 1 || value > max) {
            throw new ModelException(
                    name + " is " + value + " in the model's configuration; it must lie between 1 and " + max);
        }
    }

    /** Query heads per KV head. */
    public int group() {
        return heads / kvHeads;
    }

    /** How many tokens a token of a layer attends to at most, itself included; 0 for all. */
    public int window(int layer) {
        return windows.isEmpty() ? 0 : windows.get(layer);
    }

    /** Number of weights that decoding one token reads; embeddings count once, as the output head. */
    public long decodeWeights() {
        long attention = (long) hidden * headDim * (2L * heads + 2L * kvHeads);
        long feedForward = 3L * hidden * intermediate;
        return layers * (attention + feedForward) + (long) vocabulary * hidden;
    }

    /** Bytes of KV per token, over all layers. */
    public long kvBytesPerToken(DataType type) {
        return 2L * layers * kvHeads * headDim * type.bytes();
    }
}
