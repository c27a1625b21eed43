package dev.tandem.model.gguf;

import dev.tandem.model.ModelException;
import dev.tandem.model.config.DataType;
import dev.tandem.model.config.Family;
import dev.tandem.model.config.LayerSpec;
import dev.tandem.model.config.LongRope;
import dev.tandem.model.config.ModelSpec;
import dev.tandem.model.config.NormPlacement;
import dev.tandem.model.config.QkNorm;
import dev.tandem.model.config.Rope;
import dev.tandem.model.config.RopeScaling;
import dev.tandem.model.weights.ElementType;
import dev.tandem.model.weights.Tensor;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;

/** Reads what a model computes from GGUF metadata. */
public final class GgufConfig {
    /** SmolLM3's files have no key for it: every fourth layer does not rotate. */
    private static final int SMOLLM3_INTERVAL = 4;

    /** Keys that would change the computation, without the architecture before them. */
    private static final List<String> REFUSED = List.of(
            "expert_count",
            "attention.scale",
            "attention.clamp_kqv",
            "attention.max_alibi_bias",
            "attention.temperature_scale",
            "attn_logit_softcapping",
            "final_logit_softcapping",
            "logit_scale",
            "embedding_scale",
            "residual_scale",
            "nextn_predict_layers");

    private static final String SHORT_FACTORS = "rope_factors_short.weight";

    private GgufConfig() {}

    /**
     * Reads what the file's model computes.
     *
     * @throws ModelException when an entry is missing, impossible, or asks for a computation that is not supported
     */
    public static ModelSpec read(GgufFile file) {
        String architecture = file.string("general.architecture", "");
        if (!Family.architectures().contains(architecture)) {
            throw new ModelException(file.path() + ": GGUF architecture '" + architecture
                    + "' is not supported; supported are "
                    + Family.architectures());
        }
        Tensor embeddings = file.tensors().get("token_embd.weight");
        if (embeddings == null) {
            throw new ModelException(file.path() + " has no tensor token_embd.weight");
        }
        try {
            refuse(file, architecture + ".");
            ModelSpec spec = spec(file, architecture, embeddings.rows());
            spec.config(); // checks the sizes
            return spec;
        } catch (ModelException e) {
            throw new ModelException(file.path() + ": " + e.getMessage());
        }
    }

    private static ModelSpec spec(GgufFile file, String architecture, int vocabulary) {
        String prefix = architecture + ".";
        int hidden = require(file, prefix + "embedding_length");
        int heads = require(file, prefix + "attention.head_count");
        int headDim = file.smallInteger(prefix + "attention.key_length", heads > 0 ? hidden / heads : 0);
        int values = file.smallInteger(prefix + "attention.value_length", headDim);
        if (values != headDim) {
            throw new ModelException(prefix + "attention.value_length is " + values + " and the keys have " + headDim
                    + " dimensions; different sizes are not supported");
        }
        int layers = ModelSpec.requireLayers(require(file, prefix + "block_count"));
        int context = require(file, prefix + "context_length");
        int dims = file.smallInteger(prefix + "rope.dimension_count", headDim);
        double theta = file.real(prefix + "rope.freq_base", 10_000);
        boolean longRope = file.tensors().containsKey(SHORT_FACTORS);
        int original = longRope ? file.smallInteger(prefix + "rope.scaling.original_context_length", context) : context;
        Rope.Rotary rotary = new Rope.Rotary(
                dims, theta, ropeScaling(file, prefix), longRope ? magnitude(file, prefix, context, original) : 1);
        QkNorm norm = switch (architecture) {
            case "qwen3" -> QkNorm.PER_HEAD;
            case "olmo2" -> QkNorm.WHOLE_ROW;
            default -> QkNorm.NONE;
        };
        int kvHeads = file.smallInteger(prefix + "attention.head_count_kv", heads);
        boolean bias = file.tensors().containsKey("blk.0.attn_q.bias");
        NormPlacement norms = architecture.equals("olmo2") ? NormPlacement.AFTER : NormPlacement.BEFORE;
        int intermediate = require(file, prefix + "feed_forward_length");
        List<LayerSpec> specs = new ArrayList<>();
        for (int layer = 0; layer < layers; layer++) {
            boolean rotates = !architecture.equals("smollm3") || (layer + 1) % SMOLLM3_INTERVAL != 0;
            Rope rope = rotates ? rotary : new Rope.None();
            specs.add(new LayerSpec(
                    new LayerSpec.Attention(heads, kvHeads, headDim, rope, norm, bias), intermediate, norms));
        }
        return new ModelSpec(
                architecture,
                hidden,
                vocabulary,
                Math.min(context, original),
                file.real(prefix + "attention.layer_norm_rms_epsilon", 1e-5),
                !file.tensors().containsKey("output.weight"),
                0,
                specs,
                storage(file.matrixTypes()),
                endTokens(file));
    }

    private static double magnitude(GgufFile file, String prefix, int context, int original) {
        double factor = (double) context / Math.max(1, original);
        return file.real(prefix + "rope.scaling.attn_factor", LongRope.magnitude(factor, original));
    }

    /** Refuses by name what changes the computation and is not supported; 0 and false mean that it does not. */
    private static void refuse(GgufFile file, String prefix) {
        for (String key : REFUSED) {
            double value = file.has(prefix + key) ? file.real(prefix + key, 0) : 0;
            if (value != 0) {
                throw new ModelException(prefix + key + " is " + value + "; models with it are not supported");
            }
        }
        if (file.flag(prefix + "use_parallel_residual", false) || !file.flag(prefix + "attention.causal", true)) {
            throw new ModelException("use_parallel_residual and attention that is not causal are not supported");
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

    private static RopeScaling ropeScaling(GgufFile file, String prefix) {
        Tensor divisors =
                file.tensors().getOrDefault(SHORT_FACTORS, file.tensors().get("rope_freqs.weight"));
        if (divisors != null) {
            return new RopeScaling.Divisors(divisors.vector());
        }
        return switch (file.string(prefix + "rope.scaling.type", "none")) {
            case "none" -> RopeScaling.NONE;
            case "linear" -> new RopeScaling.Linear(file.real(prefix + "rope.scaling.factor", 1));
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
