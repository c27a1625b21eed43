package dev.tandem.model.gguf;

import dev.tandem.model.ModelException;
import dev.tandem.model.config.Activation;
import dev.tandem.model.config.DataType;
import dev.tandem.model.config.Family;
import dev.tandem.model.config.LayerSpec;
import dev.tandem.model.config.ModelSpec;
import dev.tandem.model.config.NormPlacement;
import dev.tandem.model.config.QkNorm;
import dev.tandem.model.config.Rope;
import dev.tandem.model.config.RopeScaling;
import dev.tandem.model.config.SlidingWindow;
import dev.tandem.model.weights.ElementType;
import dev.tandem.model.weights.Tensor;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;

/** Reads what a model computes from GGUF metadata. */
public final class GgufConfig {
    /** SmolLM3's files have no key for it: every fourth layer does not rotate. */
    private static final int SMOLLM3_INTERVAL = 4;
    /** Files of Gemma 3 need not say it: every sixth layer has no window. */
    private static final int GEMMA3_PERIOD = 6;
    /** OLMo 3 without a list: every fourth layer has no window. */
    private static final int OLMO3_PERIOD = 4;
    /** Files of Gemma 3 do not give the factor of scores; 27B, the one of 62 layers, has another than the others. */
    private static final int GEMMA3_27B_LAYERS = 62;

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
    private static final String LONG_FACTORS = "rope_factors_long.weight";

    private GgufConfig() {}

    /**
     * Reads what the file's model computes.
     *
     * @param maxModelLen max tokens of a sequence as the user asks for them, which choose LongRoPE's divisors
     * @throws ModelException when an entry is missing, impossible, or asks for a computation that is not supported
     */
    public static ModelSpec read(GgufFile file, Optional<Integer> maxModelLen) {
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
            ModelSpec spec = spec(file, architecture, embeddings.rows(), maxModelLen);
            spec.config(); // checks the sizes
            return spec;
        } catch (ModelException e) {
            throw new ModelException(file.path() + ": " + e.getMessage());
        }
    }

    private static ModelSpec spec(GgufFile file, String architecture, int vocabulary, Optional<Integer> maxModelLen) {
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
        int usable = file.tensors().containsKey(SHORT_FACTORS)
                ? RopeScaling.LongRope.contextTokens(originalContext(file, prefix, context), context, maxModelLen)
                : context;
        QkNorm norm = switch (architecture) {
            case "qwen3", "gemma3" -> QkNorm.PER_HEAD;
            case "olmo2" -> QkNorm.WHOLE_ROW;
            default -> QkNorm.NONE;
        };
        int kvHeads = file.smallInteger(prefix + "attention.head_count_kv", heads);
        boolean bias = file.tensors().containsKey("blk.0.attn_q.bias");
        NormPlacement norms = switch (architecture) {
            case "gemma3" -> NormPlacement.BOTH;
            case "olmo2" -> NormPlacement.AFTER;
            default -> NormPlacement.BEFORE;
        };
        boolean gemma = architecture.equals("gemma3");
        boolean wholeWidth = gemma && layers == GEMMA3_27B_LAYERS;
        double scale = LayerSpec.Attention.usualScale(wholeWidth ? hidden / heads : headDim);
        int intermediate = require(file, prefix + "feed_forward_length");
        List<LayerSpec> specs = new ArrayList<>();
        for (int layer = 0; layer < layers; layer++) {
            boolean slides = slides(file, architecture, layer);
            int window = file.smallInteger(prefix + "attention.sliding_window", 0);
            boolean rotates = !architecture.equals("smollm3") || (layer + 1) % SMOLLM3_INTERVAL != 0;
            Rope rope = rotates ? rotary(file, architecture, slides, dims, context, usable) : new Rope.None();
            LayerSpec.Attention attention = new LayerSpec.Attention(
                    heads,
                    kvHeads,
                    headDim,
                    scale,
                    slides ? SlidingWindow.within(window, usable) : 0,
                    rope,
                    norm,
                    bias);
            specs.add(new LayerSpec(attention, intermediate, gemma ? Activation.GELU_TANH : Activation.SILU, norms));
        }
        return new ModelSpec(
                architecture,
                hidden,
                vocabulary,
                usable,
                file.real(prefix + "attention.layer_norm_rms_epsilon", 1e-5),
                gemma ? Math.sqrt(hidden) : 1,
                !file.tensors().containsKey("output.weight"),
                specs,
                storage(file.matrixTypes()),
                endTokens(file));
    }

    /**
     * Whether a layer has the file's window, if it has one. The pattern is one flag per layer, or a period whose last
     * layer has none; files of Gemma 3 may leave it out.
     */
    private static boolean slides(GgufFile file, String architecture, int layer) {
        String key = architecture + ".attention.sliding_window_pattern";
        if (!file.has(key)) {
            return switch (architecture) {
                case "gemma3" -> (layer + 1) % GEMMA3_PERIOD != 0;
                case "olmo2" -> file.has("olmo2.attention.sliding_window") && (layer + 1) % OLMO3_PERIOD != 0;
                default -> true;
            };
        }
        if (file.isArray(key)) {
            Object[] flags = file.array(key);
            if (layer >= flags.length) {
                throw new ModelException(key + " has " + flags.length + " entries, none for layer " + layer);
            }
            return Boolean.TRUE.equals(flags[layer]);
        }
        int period = file.smallInteger(key, 0);
        if (period < 1) {
            throw new ModelException(key + " is " + period + "; it must be at least 1");
        }
        return (layer + 1) % period != 0;
    }

    /** Gemma 3 and OLMo 3 scale frequencies in layers without a window only; Gemma 3 has a base of its own for each. */
    private static Rope.Rotary rotary(
            GgufFile file, String architecture, boolean slides, int dims, int context, int usable) {
        String prefix = architecture + ".";
        double theta = file.real(prefix + "rope.freq_base", architecture.equals("gemma3") ? 1_000_000 : 10_000);
        boolean twoRotations = architecture.equals("gemma3") || architecture.equals("olmo2");
        if (twoRotations && slides) {
            double usual = architecture.equals("gemma3") ? 10_000 : theta;
            return new Rope.Rotary(dims, file.real(prefix + "rope.freq_base_swa", usual), RopeScaling.NONE, 1);
        }
        RopeScaling scaling = file.tensors().containsKey(SHORT_FACTORS)
                ? longRope(file, prefix, context, usable)
                : ropeScaling(file, prefix, context);
        String key = prefix + "rope.scaling.attn_factor";
        double magnitude = switch (scaling) {
            case RopeScaling.LongRope longRope -> {
                int original = longRope.originalContext();
                yield file.real(key, RopeScaling.LongRope.usualMagnitude((double) context / original, original));
            }
            case RopeScaling.Yarn yarn -> file.real(key, yarn.usualMagnitude());
            case RopeScaling.None _, RopeScaling.Linear _, RopeScaling.Llama3 _, RopeScaling.Divisors _ -> 1;
        };
        return new Rope.Rotary(dims, theta, scaling, magnitude);
    }

    private static int originalContext(GgufFile file, String prefix, int context) {
        int original = file.smallInteger(prefix + "rope.scaling.original_context_length", context);
        if (original < 1) {
            throw new ModelException(
                    prefix + "rope.scaling.original_context_length is " + original + "; it must be at least 1");
        }
        return Math.min(original, context);
    }

    /** @param usable tokens for which the divisors are chosen */
    private static RopeScaling longRope(GgufFile file, String prefix, int context, int usable) {
        int original = originalContext(file, prefix, context);
        String name = usable > original ? LONG_FACTORS : SHORT_FACTORS;
        Tensor divisors = file.tensors().get(name);
        if (divisors == null) {
            throw new ModelException("the tensor " + name + " is missing, which contexts of more than " + original
                    + " tokens need; lower --max-model-len to " + original);
        }
        return new RopeScaling.LongRope(new RopeScaling.Divisors(divisors.vector()), original, context);
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
     * The type of KV, and of weights that an executor does not keep as they are in the file: the file's own type if it
     * is 16-bit; bf16 where blocks are quantised, which err far more than its 2^-9; else fp32.
     */
    static DataType storage(Set<ElementType> types) {
        if (types.equals(Set.of(ElementType.F16))) {
            return DataType.FLOAT16;
        }
        return types.equals(Set.of(ElementType.BF16)) || types.stream().anyMatch(ElementType::quantised)
                ? DataType.BFLOAT16
                : DataType.FLOAT32;
    }

    private static RopeScaling ropeScaling(GgufFile file, String prefix, int context) {
        Tensor divisors = file.tensors().get("rope_freqs.weight");
        if (divisors != null) {
            return new RopeScaling.Divisors(divisors.vector());
        }
        return switch (file.string(prefix + "rope.scaling.type", "none")) {
            case "none" -> RopeScaling.NONE;
            case "linear" -> new RopeScaling.Linear(file.real(prefix + "rope.scaling.factor", 1));
            case "yarn" ->
                new RopeScaling.Yarn(
                        file.real(prefix + "rope.scaling.factor", 1),
                        file.real(prefix + "rope.scaling.yarn_beta_fast", 32),
                        file.real(prefix + "rope.scaling.yarn_beta_slow", 1),
                        file.smallInteger(prefix + "rope.scaling.original_context_length", context),
                        true);
            case String other ->
                throw new ModelException("rope scaling '" + other
                        + "' is not supported; supported are none, linear, yarn and frequency divisors");
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
