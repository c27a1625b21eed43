package dev.tandem.model.config;

import dev.tandem.model.ModelException;
import java.util.Set;

/**
 * The shape of a decoder of the Llama family.
 *
 * @param family as the model file names it: llama, mistral, qwen2, qwen3
 * @param headDim dimensions of one head; not always hidden / heads
 * @param tiedEmbeddings the output head is the embedding table
 * @param qkvBias q, k and v projections have a bias (Qwen2)
 * @param qkNorm q and k heads pass an RMS norm before rotation (Qwen3)
 * @param slidingWindow tokens a row may attend to, 0 for all
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
        double ropeTheta,
        RopeScaling ropeScaling,
        boolean tiedEmbeddings,
        boolean qkvBias,
        boolean qkNorm,
        int slidingWindow,
        DataType fileType,
        Set<Integer> endTokens) {
    public static final Set<String> FAMILIES = Set.of("llama", "mistral", "qwen2", "qwen3");

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
        if (!(ropeTheta >= 1)) {
            throw new ModelException("rope_theta is " + ropeTheta + "; it must be at least 1");
        }
        endTokens = Set.copyOf(endTokens);
    }

    /**
     * The limits keep every product of sizes within its type. They lie 16 times or more above the largest models known.
     */
    private static void requireWithin(String name, int value, int max) {
        if (value < 1 || value > max) {
            throw new ModelException(
                    name + " is " + value + " in the model's configuration; it must lie between 1 and " + max);
        }
    }

    /** Query heads that share one KV head. */
    public int group() {
        return heads / kvHeads;
    }

    /** Tokens a sequence may have: the trained context, or the sliding window where that is shorter. */
    public int usableContext() {
        return slidingWindow > 0 ? Math.min(slidingWindow, contextTokens) : contextTokens;
    }

    /** Weights that every decoded token reads, embeddings counted once as the output head. */
    public long decodeWeights() {
        long attention = (long) hidden * headDim * (2L * heads + 2L * kvHeads);
        long feedForward = 3L * hidden * intermediate;
        return layers * (attention + feedForward) + (long) vocabulary * hidden;
    }

    /** KV bytes of one token over all layers. */
    public long kvBytesPerToken(DataType type) {
        return 2L * layers * kvHeads * headDim * type.bytes();
    }
}
