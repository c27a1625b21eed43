package dev.tandem.model.gguf;

import dev.tandem.model.ModelException;
import dev.tandem.model.config.ModelConfig;
import dev.tandem.model.weights.ElementType;
import dev.tandem.model.weights.Tensor;
import dev.tandem.model.weights.Weights;
import java.util.Set;
import java.util.function.IntUnaryOperator;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The tensors of a GGUF file under Hugging Face's names. GGUF stores the rows of q and k with each rotated pair
 * adjacent. {@link Tensor#rowOrder} undoes that, so that RoPE rotates the two halves of a head in all models.
 */
public final class GgufWeights implements Weights {
    private static final Pattern LAYER = Pattern.compile("model\\.layers\\.(\\d+)\\.(.+)\\.(weight|bias)");

    private final GgufFile file;
    private final ModelConfig config;

    /** @param file is closed with the weights */
    public GgufWeights(GgufFile file, ModelConfig config) {
        this.file = file;
        this.config = config;
    }

    @Override
    public boolean contains(String name) {
        return file.tensors().containsKey(fileName(name));
    }

    @Override
    public Tensor tensor(String name) {
        Tensor tensor = file.tensors().get(fileName(name));
        if (tensor == null) {
            throw new ModelException(file.path() + " has no tensor " + fileName(name) + " among its "
                    + file.tensors().size());
        }
        boolean rotated = name.endsWith("q_proj.weight") || name.endsWith("k_proj.weight");
        return rotated
                ? new Tensor(
                        name,
                        tensor.type(),
                        tensor.rows(),
                        tensor.columns(),
                        tensor.data(),
                        pairsToHalves(config.headDim()))
                : tensor;
    }

    /** The element types of the matrices; see {@link GgufFile#matrixTypes}. */
    public Set<ElementType> matrixTypes() {
        return file.matrixTypes();
    }

    /** Maps row (head, half, i) of the model to row (head, i, half) of the file. */
    static IntUnaryOperator pairsToHalves(int headDim) {
        int half = headDim / 2;
        return row -> {
            int head = row / headDim;
            int within = row % headDim;
            return head * headDim + within % half * 2 + within / half;
        };
    }

    private static String fileName(String name) {
        Matcher layer = LAYER.matcher(name);
        if (layer.matches()) {
            return "blk." + layer.group(1) + "." + part(layer.group(2)) + "." + layer.group(3);
        }
        return switch (name) {
            case "model.embed_tokens.weight" -> "token_embd.weight";
            case "model.norm.weight" -> "output_norm.weight";
            case "lm_head.weight" -> "output.weight";
            default -> name;
        };
    }

    private static String part(String name) {
        return switch (name) {
            case "input_layernorm" -> "attn_norm";
            case "post_attention_layernorm" -> "ffn_norm";
            case "self_attn.q_proj" -> "attn_q";
            case "self_attn.k_proj" -> "attn_k";
            case "self_attn.v_proj" -> "attn_v";
            case "self_attn.o_proj" -> "attn_output";
            case "mlp.gate_proj" -> "ffn_gate";
            case "mlp.up_proj" -> "ffn_up";
            case "mlp.down_proj" -> "ffn_down";
            default -> name;
        };
    }

    @Override
    public String origin() {
        return file.path().toString();
    }

    @Override
    public void close() {
        file.close();
    }
}
