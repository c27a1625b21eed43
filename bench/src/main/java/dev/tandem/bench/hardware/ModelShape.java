package dev.tandem.bench.hardware;

import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.engine.kv.AttentionSpan;
import tools.jackson.core.JacksonException;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;

/**
 * The sizes of a dense decoder model that decide its times and its memory.
 *
 * @param layers number of layers
 * @param hidden width of the hidden state
 * @param attention its heads
 * @param intermediate width of the MLP
 * @param vocabulary tokens
 * @param kvValueBytes bytes of one value of K or V: 2 is bf16, 1 is fp8; weights always have 2
 * @param tiedEmbeddings whether the output head is the embedding table
 * @param span how many tokens attention reads
 */
public record ModelShape(
        int layers,
        int hidden,
        Attention attention,
        int intermediate,
        int vocabulary,
        double kvValueBytes,
        boolean tiedEmbeddings,
        AttentionSpan span) {
    private static final ObjectMapper JSON = new ObjectMapper();

    /**
     * Attention heads.
     *
     * @param heads query heads
     * @param kvHeads heads of K and V
     * @param headDim dimensions of a head
     */
    public record Attention(int heads, int kvHeads, int headDim) {}

    private static final int WEIGHT_BYTES = 2;

    /** A model whose tokens attend to all earlier ones. */
    public ModelShape(
            int layers,
            int hidden,
            Attention attention,
            int intermediate,
            int vocabulary,
            double kvValueBytes,
            boolean tiedEmbeddings) {
        this(layers, hidden, attention, intermediate, vocabulary, kvValueBytes, tiedEmbeddings, AttentionSpan.WHOLE);
    }

    /**
     * Reads a {@code config.json} of Hugging Face whose model has no sliding windows.
     *
     * @param origin names the text in errors
     * @throws ConfigurationException that names the field that is missing
     */
    public static ModelShape read(String config, String origin) {
        try {
            JsonNode node = JSON.readTree(config);
            int hidden = size(node, "hidden_size", origin);
            int heads = size(node, "num_attention_heads", origin);
            int kvHeads = node.has("num_key_value_heads") ? size(node, "num_key_value_heads", origin) : heads;
            int headDim = node.has("head_dim") ? size(node, "head_dim", origin) : hidden / heads;
            return new ModelShape(
                    size(node, "num_hidden_layers", origin),
                    hidden,
                    new Attention(heads, kvHeads, headDim),
                    size(node, "intermediate_size", origin),
                    size(node, "vocab_size", origin),
                    WEIGHT_BYTES,
                    node.path("tie_word_embeddings").booleanValue(false));
        } catch (JacksonException e) {
            throw new ConfigurationException(origin + " is no JSON: " + e.getOriginalMessage());
        }
    }

    private static int size(JsonNode node, String field, String origin) {
        JsonNode value = node.path(field);
        if (!value.isInt() || value.intValue() < 1) {
            throw new ConfigurationException(origin + ": " + field + " is " + value
                    + "; a model's configuration needs it, as an integer above 0");
        }
        return value.intValue();
    }

    /** This model with KV values of this many bytes. */
    public ModelShape withKvValueBytes(double bytes) {
        return new ModelShape(layers, hidden, attention, intermediate, vocabulary, bytes, tiedEmbeddings, span);
    }

    /** Query heads per KV head. */
    public int group() {
        return attention.heads() / attention.kvHeads();
    }

    /** Width of all query heads. */
    public int queryWidth() {
        return attention.heads() * attention.headDim();
    }

    /** Weights of one layer: q, k, v, output projection, gate, up and down. */
    public double layerParameters() {
        double kvWidth = (double) attention.kvHeads() * attention.headDim();
        return 2.0 * hidden * queryWidth() + 2.0 * hidden * kvWidth + 3.0 * hidden * intermediate;
    }

    /** Weights of the output head. */
    public double headParameters() {
        return (double) vocabulary * hidden;
    }

    /** Bytes that a pass over one layer reads. */
    public double layerBytes() {
        return layerParameters() * WEIGHT_BYTES;
    }

    /** Bytes that the output head reads. */
    public double headBytes() {
        return headParameters() * WEIGHT_BYTES;
    }

    /** Bytes of all weights in GPU memory. */
    public double weightBytes() {
        return layers * layerBytes() + headBytes() * (tiedEmbeddings ? 1 : 2);
    }

    /** KV bytes of one token in all layers. */
    public double kvBytesPerToken() {
        return 2.0 * layers * attention.kvHeads() * attention.headDim() * kvValueBytes;
    }
}
