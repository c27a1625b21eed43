package dev.tandem.model.gguf;

import dev.tandem.model.ModelException;
import dev.tandem.model.config.DataType;
import dev.tandem.model.config.ModelConfig;
import dev.tandem.model.config.RopeScaling;
import dev.tandem.model.weights.ElementType;
import dev.tandem.model.weights.Tensor;
import java.util.HashSet;
import java.util.Set;

/** Reads a model's configuration from GGUF metadata of the {@code llama} architecture. */
public final class GgufConfig {
    /** The architectures that are supported. */
    public static final Set<String> ARCHITECTURES = Set.of("llama");

    private GgufConfig() {}

    public static ModelConfig read(GgufFile file) {
        String architecture = file.string("general.architecture", "");
        if (!ARCHITECTURES.contains(architecture)) {
            throw new ModelException(file.path() + ": GGUF architecture '" + architecture + "' is not supported; "
                    + String.join(", ", ARCHITECTURES)
                    + " is. Other families can be served from their Hugging Face directory");
        }
        int hidden = require(file, "llama.embedding_length");
        int heads = require(file, "llama.attention.head_count");
        int headDim = file.smallInteger("llama.attention.key_length", heads > 0 ? hidden / heads : 0);
        Tensor embeddings = file.tensors().get("token_embd.weight");
        if (embeddings == null) {
            throw new ModelException(file.path() + " has no tensor token_embd.weight");
        }
        try {
            return new ModelConfig(
                    "llama",
                    hidden,
                    require(file, "llama.block_count"),
                    heads,
                    file.smallInteger("llama.attention.head_count_kv", heads),
                    headDim,
                    require(file, "llama.feed_forward_length"),
                    embeddings.rows(),
                    require(file, "llama.context_length"),
                    file.real("llama.attention.layer_norm_rms_epsilon", 1e-5),
                    file.real("llama.rope.freq_base", 10_000),
                    ropeScaling(file),
                    !file.tensors().containsKey("output.weight"),
                    file.tensors().containsKey("blk.0.attn_q.bias"),
                    false,
                    0,
                    storage(file.matrixTypes()),
                    endTokens(file));
        } catch (ModelException e) {
            throw new ModelException(file.path() + ": " + e.getMessage());
        }
    }

    /**
     * The type that stores unpacked weights: the file's own type if it is 16-bit; bf16 for quantised blocks that must
     * be unpacked, with a relative error of at most 2^-9; else fp32.
     */
    static DataType storage(Set<ElementType> types) {
        if (types.stream().anyMatch(GgufConfig::isUnpacked)) {
            return DataType.BFLOAT16;
        }
        return types.equals(Set.of(ElementType.BF16))
                ? DataType.BFLOAT16
                : types.equals(Set.of(ElementType.F16)) ? DataType.FLOAT16 : DataType.FLOAT32;
    }

    /** Whether the blocks must be unpacked, because no executor computes with them directly. */
    private static boolean isUnpacked(ElementType type) {
        return switch (type) {
            case Q5_0, Q5_1, Q4_K, Q5_K, Q6_K -> true;
            case F32, F16, BF16, Q4_0, Q4_1, Q8_0 -> false;
        };
    }

    private static RopeScaling ropeScaling(GgufFile file) {
        Tensor divisors = file.tensors().get("rope_freqs.weight");
        if (divisors != null) {
            return new RopeScaling.Divisors(divisors.vector());
        }
        return switch (file.string("llama.rope.scaling.type", "none")) {
            case "none" -> RopeScaling.NONE;
            case "linear" -> new RopeScaling.Linear(file.real("llama.rope.scaling.factor", 1));
            case String other ->
                throw new ModelException("rope scaling '" + other
                        + "' is not supported; supported are none, linear and frequency divisors");
        };
    }

    private static Set<Integer> endTokens(GgufFile file) {
        Set<Integer> tokens = new HashSet<>();
        for (String key : new String[] {"eos", "eot", "eom"}) {
            int id = file.smallInteger("tokenizer.ggml." + key + "_token_id", -1);
            if (id >= 0) {
                tokens.add(id);
            }
        }
        return tokens;
    }

    private static int require(GgufFile file, String key) {
        if (!file.has(key)) {
            throw new ModelException(file.path() + ": the metadata entry " + key + " is missing");
        }
        return file.smallInteger(key, 0);
    }
}
