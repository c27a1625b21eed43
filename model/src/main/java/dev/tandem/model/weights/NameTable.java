package dev.tandem.model.weights;

import java.util.EnumMap;
import java.util.Map;

/**
 * How the files of a family, in one container, name and order their tensors.
 *
 * @param layerPrefix format of the prefix of a layer's tensors
 * @param sources of each role that such files can have
 * @param headOrder order of the dimensions in a head of q and k
 * @param normOffset what is added to the stored weights of norms
 */
public record NameTable(String layerPrefix, Map<Role, Source> sources, HeadOrder headOrder, float normOffset) {

    /**
     * Where a role's values are.
     *
     * @param name of the tensor, without layer and suffix
     */
    public record Source(String name, Rows rows) {}

    /** Which rows of a stored matrix a role takes; some files store several matrices as one. */
    public enum Rows {
        ALL,
        /** Of q, k and v as one matrix. */
        QUERIES,
        KEYS,
        VALUES,
        /** Of gate and up as one matrix. */
        GATE,
        UP
    }

    /** Which dimensions of a head rotate as a pair. */
    public enum HeadOrder {
        /** Dimension i with i + n/2, of the n that rotate. */
        HALVES,
        /** Dimension 2i with 2i + 1. */
        ADJACENT_PAIRS;

        /**
         * Where the file has a dimension of the model's head. In the model, i rotates with i + headDim/2, and the pairs
         * that do not rotate come last in each half.
         *
         * @param rotating dimensions of the head that rotate
         */
        int stored(int dimension, int headDim, int rotating) {
            int half = headDim / 2;
            int pair = dimension % half;
            int side = dimension / half;
            int pairs = rotating / 2;
            if (pair >= pairs) {
                return rotating + side * (half - pairs) + pair - pairs;
            }
            return this == HALVES ? side * pairs + pair : 2 * pair + side;
        }
    }

    public NameTable {
        sources = Map.copyOf(sources);
    }

    /** The names of a family's Hugging Face files. */
    public static NameTable huggingFace(String family) {
        Map<Role, Source> sources = new EnumMap<>(Role.class);
        for (Role role : Role.values()) {
            sources.put(role, new Source(role.part(), Rows.ALL));
        }
        sources.remove(Role.ATTENTION_OUTPUT_NORM);
        sources.remove(Role.MLP_OUTPUT_NORM);
        switch (family) {
            case "phi3" -> {
                fuseQkv(sources, "self_attn.qkv_proj");
                fuseGateUp(sources, "mlp.gate_up_proj");
            }
            case "olmo2", "olmo3" -> {
                outputNorms(sources, "post_attention_layernorm", "post_feedforward_layernorm");
                withoutInputNorms(sources);
            }
            case "gemma3_text" -> {
                outputNorms(sources, "post_attention_layernorm", "post_feedforward_layernorm");
                sources.put(Role.MLP_INPUT_NORM, new Source("pre_feedforward_layernorm", Rows.ALL));
            }
            default -> {}
        }
        // Gemma's files store weights of norms as their difference from one
        float offset = family.equals("gemma3_text") ? 1 : 0;
        return new NameTable("model.layers.%s.", sources, HeadOrder.HALVES, offset);
    }

    /** The names of GGUF files of an architecture. */
    public static NameTable gguf(String architecture) {
        Map<Role, Source> sources = new EnumMap<>(Role.class);
        Map.ofEntries(
                        Map.entry(Role.EMBEDDINGS, "token_embd"),
                        Map.entry(Role.FINAL_NORM, "output_norm"),
                        Map.entry(Role.HEAD, "output"),
                        Map.entry(Role.ATTENTION_INPUT_NORM, "attn_norm"),
                        Map.entry(Role.QUERY, "attn_q"),
                        Map.entry(Role.KEY, "attn_k"),
                        Map.entry(Role.VALUE, "attn_v"),
                        Map.entry(Role.QUERY_NORM, "attn_q_norm"),
                        Map.entry(Role.KEY_NORM, "attn_k_norm"),
                        Map.entry(Role.OUTPUT, "attn_output"),
                        Map.entry(Role.MLP_INPUT_NORM, "ffn_norm"),
                        Map.entry(Role.GATE, "ffn_gate"),
                        Map.entry(Role.UP, "ffn_up"),
                        Map.entry(Role.DOWN, "ffn_down"))
                .forEach((role, name) -> sources.put(role, new Source(name, Rows.ALL)));
        switch (architecture) {
            case "phi3" -> {
                fuseQkv(sources, "attn_qkv");
                fuseGateUp(sources, "ffn_up");
            }
            case "olmo2" -> {
                outputNorms(sources, "post_attention_norm", "post_ffw_norm");
                withoutInputNorms(sources);
            }
            case "gemma3" -> outputNorms(sources, "post_attention_norm", "post_ffw_norm");
            default -> {}
        }
        boolean adjacent = architecture.equals("llama") || architecture.equals("smollm3");
        return new NameTable("blk.%s.", sources, adjacent ? HeadOrder.ADJACENT_PAIRS : HeadOrder.HALVES, 0);
    }

    private static void fuseQkv(Map<Role, Source> sources, String name) {
        sources.put(Role.QUERY, new Source(name, Rows.QUERIES));
        sources.put(Role.KEY, new Source(name, Rows.KEYS));
        sources.put(Role.VALUE, new Source(name, Rows.VALUES));
    }

    private static void fuseGateUp(Map<Role, Source> sources, String name) {
        sources.put(Role.GATE, new Source(name, Rows.GATE));
        sources.put(Role.UP, new Source(name, Rows.UP));
    }

    private static void outputNorms(Map<Role, Source> sources, String attention, String mlp) {
        sources.put(Role.ATTENTION_OUTPUT_NORM, new Source(attention, Rows.ALL));
        sources.put(Role.MLP_OUTPUT_NORM, new Source(mlp, Rows.ALL));
    }

    /** Takes out the norms of inputs, which such files do not have. */
    private static void withoutInputNorms(Map<Role, Source> sources) {
        sources.remove(Role.ATTENTION_INPUT_NORM);
        sources.remove(Role.MLP_INPUT_NORM);
    }
}
