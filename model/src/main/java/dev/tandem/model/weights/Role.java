package dev.tandem.model.weights;

import dev.tandem.model.config.LayerSpec;
import dev.tandem.model.config.ModelSpec;
import dev.tandem.model.config.QkNorm;
import java.util.Arrays;
import java.util.Optional;

/** What a tensor is for. A role has one name in Tandem, whatever names the files of a family use. */
public enum Role {
    EMBEDDINGS("model.embed_tokens", false),
    FINAL_NORM("model.norm", false),
    HEAD("lm_head", false),
    /** The norm before attention. */
    ATTENTION_INPUT_NORM("input_layernorm", true),
    QUERY("self_attn.q_proj", true),
    KEY("self_attn.k_proj", true),
    VALUE("self_attn.v_proj", true),
    QUERY_NORM("self_attn.q_norm", true),
    KEY_NORM("self_attn.k_norm", true),
    OUTPUT("self_attn.o_proj", true),
    /** The norm after attention's output projection. */
    ATTENTION_OUTPUT_NORM("attention_output_norm", true),
    /** The norm before the MLP; Llama's files call it by its place after attention. */
    MLP_INPUT_NORM("post_attention_layernorm", true),
    GATE("mlp.gate_proj", true),
    UP("mlp.up_proj", true),
    DOWN("mlp.down_proj", true),
    /** The norm after the MLP's down projection. */
    MLP_OUTPUT_NORM("mlp_output_norm", true);

    private final String part;
    private final boolean perLayer;

    Role(String part, boolean perLayer) {
        this.part = part;
        this.perLayer = perLayer;
    }

    /** Rows and columns; a vector is one row. */
    public record Shape(int rows, int columns) {}

    /** The name without layer and suffix. */
    public String part() {
        return part;
    }

    /** Whether each layer has such a tensor. */
    public boolean perLayer() {
        return perLayer;
    }

    /** The name of a layer's tensor; the layer is not looked at where a model has only one. */
    public String tensor(int layer, String suffix) {
        return (perLayer ? "model.layers." + layer + "." : "") + part + "." + suffix;
    }

    /** The role of a name without layer and suffix. */
    static Optional<Role> of(String part) {
        return Arrays.stream(values()).filter(role -> role.part.equals(part)).findFirst();
    }

    /** Whether the weight is that of an RMS norm. */
    boolean isNorm() {
        return switch (this) {
            case FINAL_NORM,
                    ATTENTION_INPUT_NORM,
                    ATTENTION_OUTPUT_NORM,
                    MLP_INPUT_NORM,
                    MLP_OUTPUT_NORM,
                    QUERY_NORM,
                    KEY_NORM -> true;
            case EMBEDDINGS, HEAD, QUERY, KEY, VALUE, OUTPUT, GATE, UP, DOWN -> false;
        };
    }

    /** Whether a model has the weight. */
    boolean hasWeight(ModelSpec spec) {
        return switch (this) {
            case HEAD -> !spec.tiedHead();
            case QUERY_NORM, KEY_NORM -> spec.attention().qkNorm() != QkNorm.NONE;
            case ATTENTION_INPUT_NORM, MLP_INPUT_NORM -> spec.norms().onInputs();
            case ATTENTION_OUTPUT_NORM, MLP_OUTPUT_NORM -> spec.norms().onOutputs();
            case EMBEDDINGS, FINAL_NORM, QUERY, KEY, VALUE, OUTPUT, GATE, UP, DOWN -> true;
        };
    }

    /** Whether a model has the bias. */
    boolean hasBias(ModelSpec spec) {
        return switch (this) {
            case QUERY, KEY, VALUE -> spec.attention().qkvBias();
            default -> false;
        };
    }

    /** The shape of the weight; the bias is a vector of as many values as this has rows. */
    Shape shape(ModelSpec spec) {
        LayerSpec.Attention attention = spec.attention();
        boolean perHead = attention.qkNorm() == QkNorm.PER_HEAD;
        return switch (this) {
            case EMBEDDINGS, HEAD -> new Shape(spec.vocabulary(), spec.hidden());
            case QUERY -> new Shape(attention.queries(), spec.hidden());
            case KEY, VALUE -> new Shape(attention.keys(), spec.hidden());
            case QUERY_NORM -> new Shape(1, perHead ? attention.headDim() : attention.queries());
            case KEY_NORM -> new Shape(1, perHead ? attention.headDim() : attention.keys());
            case OUTPUT -> new Shape(spec.hidden(), attention.queries());
            case GATE, UP -> new Shape(spec.intermediate(), spec.hidden());
            case DOWN -> new Shape(spec.hidden(), spec.intermediate());
            case FINAL_NORM, ATTENTION_INPUT_NORM, ATTENTION_OUTPUT_NORM, MLP_INPUT_NORM, MLP_OUTPUT_NORM ->
                new Shape(1, spec.hidden());
        };
    }
}
