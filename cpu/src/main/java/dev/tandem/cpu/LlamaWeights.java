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
 * A model's weights in the layout that the kernels read.
 *
 * @param embeddings [vocabulary, hidden]; rows are read directly from the file
 * @param norm [hidden]: weights of the last norm
 * @param head the output projection; with tied embeddings, the embeddings packed
 */
record LlamaWeights(Tensor embeddings, List<Layer> layers, float[] norm, PackedMatrix head) {

    /**
     * One decoder layer.
     *
     * @param qkvBias [q | k | v]; empty if the model has none
     * @param queryNorm [headDim]; empty if the model does not normalise queries
     * @param keyNorm [headDim]; empty if the model does not normalise keys
     */
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

    /**
     * Loads and packs all weights.
     *
     * @param type storage type of the packed matrices, except GGUF blocks that {@link MatrixPacker#keepsBlocks} keeps
     * @throws ModelException if a tensor is missing, has another shape, or is a bias that is not supported
     */
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
                        weights.origin() + ": the bias " + unused + " is not supported; only biases of q, k and v are");
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

    /** Bytes of packed matrices that one decode step reads. */
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
