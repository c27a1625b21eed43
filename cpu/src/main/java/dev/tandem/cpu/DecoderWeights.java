package dev.tandem.cpu;

import dev.tandem.cpu.simd.MatrixPacker;
import dev.tandem.cpu.simd.PackedMatrix;
import dev.tandem.model.ModelException;
import dev.tandem.model.config.DataType;
import dev.tandem.model.config.LayerSpec;
import dev.tandem.model.config.ModelSpec;
import dev.tandem.model.config.NormPlacement;
import dev.tandem.model.weights.Role;
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
record DecoderWeights(Tensor embeddings, List<Layer> layers, float[] norm, List<PackedMatrix> head) {

    /**
     * One decoder layer. A projection is one matrix per run of tensors of one type, their columns side by side.
     *
     * @param qkvBias [q | k | v]; empty if the model has none
     * @param queryNorm [headDim] or [heads * headDim]; empty if the model does not normalise queries
     * @param keyNorm [headDim] or [kvHeads * headDim]; empty if the model does not normalise keys
     * @param inputNorm of attention's input; this and the other norms are empty where {@link NormPlacement} has none
     * @param attentionNorm of attention's output projection
     * @param mlpInputNorm of the MLP's input
     * @param mlpNorm of the MLP's output
     */
    record Layer(
            float[] inputNorm,
            List<PackedMatrix> qkv,
            float[] qkvBias,
            float[] queryNorm,
            float[] keyNorm,
            List<PackedMatrix> output,
            float[] attentionNorm,
            float[] mlpInputNorm,
            List<PackedMatrix> gateUp,
            List<PackedMatrix> down,
            float[] mlpNorm) {}

    /**
     * Loads and packs all weights.
     *
     * @param type storage type of matrices that are not quantised
     * @throws ModelException if a tensor is missing or has another shape
     */
    static DecoderWeights load(ModelSpec spec, Weights weights, DataType type, MatrixPacker packer) {
        Packing packing = new Packing(type, packer);
        Tensor embeddings = weights.matrix("model.embed_tokens.weight", spec.vocabulary(), spec.hidden());
        List<Layer> layers = new ArrayList<>();
        for (int i = 0; i < spec.layers().size(); i++) {
            layers.add(layer(spec, weights, i, packing));
        }
        Tensor head = spec.tiedHead() ? embeddings : weights.matrix("lm_head.weight", spec.vocabulary(), spec.hidden());
        return new DecoderWeights(
                embeddings, layers, weights.vector("model.norm.weight", spec.hidden()), packing.pack(List.of(head)));
    }

    private record Packing(DataType type, MatrixPacker packer) {
        /** Packs tensors side by side, neighbours of one type as one matrix. */
        List<PackedMatrix> pack(List<Tensor> tensors) {
            List<PackedMatrix> matrices = new ArrayList<>();
            for (int first = 0, next; first < tensors.size(); first = next) {
                next = first + 1;
                while (next < tensors.size() && alike(tensors.get(first), tensors.get(next))) {
                    next++;
                }
                List<Tensor> run = tensors.subList(first, next);
                matrices.add(tensors.get(first).type().quantised() ? packer.quantised(run) : packer.plain(run, type));
            }
            return List.copyOf(matrices);
        }

        private static boolean alike(Tensor one, Tensor other) {
            return one.type() == other.type()
                    || !one.type().quantised() && !other.type().quantised();
        }
    }

    private static Layer layer(ModelSpec spec, Weights weights, int index, Packing packing) {
        String prefix = "model.layers." + index + ".";
        LayerSpec layer = spec.layers().get(index);
        int hidden = spec.hidden();
        int queries = layer.attention().queries();
        int keys = layer.attention().keys();
        String attention = prefix + "self_attn.";
        List<Tensor> qkv = List.of(
                weights.matrix(attention + "q_proj.weight", queries, hidden),
                weights.matrix(attention + "k_proj.weight", keys, hidden),
                weights.matrix(attention + "v_proj.weight", keys, hidden));
        float[] bias = new float[0];
        if (layer.attention().qkvBias()) {
            bias = new float[queries + 2 * keys];
            weights.matrix(attention + "q_proj.bias", 1, queries).row(0, bias, 0);
            weights.matrix(attention + "k_proj.bias", 1, keys).row(0, bias, queries);
            weights.matrix(attention + "v_proj.bias", 1, keys).row(0, bias, queries + keys);
        }
        boolean inputs = layer.norms().onInputs();
        boolean outputs = layer.norms().onOutputs();
        return new Layer(
                norm(inputs, Role.ATTENTION_INPUT_NORM, weights, index, hidden),
                packing.pack(qkv),
                bias,
                qkNorm(layer.attention(), weights, Role.QUERY_NORM.tensor(index, "weight"), queries),
                qkNorm(layer.attention(), weights, Role.KEY_NORM.tensor(index, "weight"), keys),
                packing.pack(List.of(weights.matrix(attention + "o_proj.weight", hidden, queries))),
                norm(outputs, Role.ATTENTION_OUTPUT_NORM, weights, index, hidden),
                norm(inputs, Role.MLP_INPUT_NORM, weights, index, hidden),
                packing.pack(List.of(
                        weights.matrix(prefix + "mlp.gate_proj.weight", layer.intermediate(), hidden),
                        weights.matrix(prefix + "mlp.up_proj.weight", layer.intermediate(), hidden))),
                packing.pack(List.of(weights.matrix(prefix + "mlp.down_proj.weight", hidden, layer.intermediate()))),
                norm(outputs, Role.MLP_OUTPUT_NORM, weights, index, hidden));
    }

    private static float[] norm(boolean exists, Role role, Weights weights, int layer, int hidden) {
        return exists ? weights.vector(role.tensor(layer, "weight"), hidden) : new float[0];
    }

    private static float[] qkNorm(LayerSpec.Attention attention, Weights weights, String name, int width) {
        return switch (attention.qkNorm()) {
            case NONE -> new float[0];
            case PER_HEAD -> weights.vector(name, attention.headDim());
            case WHOLE_ROW -> weights.vector(name, width);
        };
    }

    /** Bytes of packed matrices that one decode step reads. */
    long bytes() {
        long bytes = bytes(head);
        for (Layer layer : layers) {
            bytes += bytes(layer.qkv()) + bytes(layer.output()) + bytes(layer.gateUp()) + bytes(layer.down());
        }
        return bytes;
    }

    private static long bytes(List<PackedMatrix> matrices) {
        return matrices.stream().mapToLong(matrix -> matrix.data().byteSize()).sum();
    }
}
