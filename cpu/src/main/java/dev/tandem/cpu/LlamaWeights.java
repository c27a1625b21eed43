package dev.tandem.cpu;

import dev.tandem.cpu.simd.MatrixPacker;
import dev.tandem.cpu.simd.PackedMatrix;
import dev.tandem.model.ModelException;
import dev.tandem.model.config.DataType;
import dev.tandem.model.config.ModelConfig;
import dev.tandem.model.weights.Tensor;
import dev.tandem.model.weights.Weights;
import java.util.ArrayList;
import java.util.List;

/**
 * A model's weights as the kernels want them.
 *
 * @param embeddings rows are read straight from the file
 * @param head the output projection; the packed embeddings when tied
 */
record LlamaWeights(Tensor embeddings, List<Layer> layers, float[] norm, PackedMatrix head) {

    /** @param qkvBias empty when the model has none; likewise {@code queryNorm} and {@code keyNorm} */
    record Layer(
            float[] inputNorm,
            PackedMatrix qkv,
            float[] qkvBias,
            float[] queryNorm,
            float[] keyNorm,
            PackedMatrix output,
            float[] attentionNorm,
            PackedMatrix gateUp,
            PackedMatrix down) {}

    /** @param type of the packed weights but for blocks of GGUF files that can be kept without loss: they are */
    static LlamaWeights load(ModelConfig config, Weights weights, DataType type, MatrixPacker packer) {
        Packing packing = new Packing(type, packer);
        Tensor embeddings = weights.matrix("model.embed_tokens.weight", config.vocabulary(), config.hidden());
        List<Layer> layers = new ArrayList<>();
        for (int i = 0; i < config.layers(); i++) {
            layers.add(layer(config, weights, "model.layers." + i + ".", packing));
        }
        Tensor head = config.tiedEmbeddings()
                ? embeddings
                : weights.matrix("lm_head.weight", config.vocabulary(), config.hidden());
        return new LlamaWeights(
                embeddings, layers, weights.vector("model.norm.weight", config.hidden()), packing.pack(List.of(head)));
    }

    private record Packing(DataType type, MatrixPacker packer) {
        PackedMatrix pack(List<Tensor> tensors) {
            return MatrixPacker.keepsBlocks(tensors) ? packer.quantised(tensors) : packer.plain(tensors, type);
        }
    }

    private static Layer layer(ModelConfig config, Weights weights, String prefix, Packing packing) {
        int hidden = config.hidden();
        int queries = config.heads() * config.headDim();
        int keys = config.kvHeads() * config.headDim();
        String attention = prefix + "self_attn.";
        List<Tensor> qkv = List.of(
                weights.matrix(attention + "q_proj.weight", queries, hidden),
                weights.matrix(attention + "k_proj.weight", keys, hidden),
                weights.matrix(attention + "v_proj.weight", keys, hidden));
        for (String unused : new String[] {attention + "o_proj.bias", prefix + "mlp.down_proj.bias"}) {
            if (weights.contains(unused)) {
                throw new ModelException(
                        weights.origin() + ": the bias " + unused + " is not supported; only those of q, k and v are");
            }
        }
        float[] bias = new float[0];
        if (config.qkvBias()) {
            bias = new float[queries + 2 * keys];
            weights.matrix(attention + "q_proj.bias", 1, queries).row(0, bias, 0);
            weights.matrix(attention + "k_proj.bias", 1, keys).row(0, bias, queries);
            weights.matrix(attention + "v_proj.bias", 1, keys).row(0, bias, queries + keys);
        }
        return new Layer(
                weights.vector(prefix + "input_layernorm.weight", hidden),
                packing.pack(qkv),
                bias,
                config.qkNorm() ? weights.vector(attention + "q_norm.weight", config.headDim()) : new float[0],
                config.qkNorm() ? weights.vector(attention + "k_norm.weight", config.headDim()) : new float[0],
                packing.pack(List.of(weights.matrix(attention + "o_proj.weight", hidden, queries))),
                weights.vector(prefix + "post_attention_layernorm.weight", hidden),
                packing.pack(List.of(
                        weights.matrix(prefix + "mlp.gate_proj.weight", config.intermediate(), hidden),
                        weights.matrix(prefix + "mlp.up_proj.weight", config.intermediate(), hidden))),
                packing.pack(List.of(weights.matrix(prefix + "mlp.down_proj.weight", hidden, config.intermediate()))));
    }

    /** Bytes of packed matrices that one decoding step reads. */
    long bytes() {
        long bytes = head.data().byteSize();
        for (Layer layer : layers) {
            bytes += layer.qkv().data().byteSize()
                    + layer.output().data().byteSize()
                    + layer.gateUp().data().byteSize()
                    + layer.down().data().byteSize();
        }
        return bytes;
    }
}
