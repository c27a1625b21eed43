package dev.tandem.model.config;

import dev.tandem.model.ModelException;
import dev.tandem.model.ModelFile;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import tools.jackson.core.JacksonException;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;

/** Reads {@code config.json} and {@code generation_config.json}, in the formats of transformers 4 and 5. */
public final class HuggingFaceConfig {
    private static final ObjectMapper JSON = new ObjectMapper();
    /** Configurations take a few KiB. */
    private static final long MAX_BYTES = 4 << 20;

    private static final List<String> REFUSED_FLAGS = List.of("mlp_bias", "use_mrope");
    private static final List<String> REFUSED_VALUES = List.of(
            "quantization_config",
            "attn_logit_softcapping",
            "final_logit_softcapping",
            "query_pre_attn_scalar",
            "num_experts",
            "num_local_experts",
            "embedding_multiplier",
            "residual_multiplier",
            "logits_scaling",
            "attention_multiplier",
            "clip_qkv");

    private HuggingFaceConfig() {}

    /**
     * Reads what a model computes from {@code config.json}.
     *
     * @throws ModelException when a value is missing, impossible, or asks for a computation that is not supported
     */
    public static ModelSpec read(Path directory) {
        Path file = directory.resolve("config.json");
        JsonNode root = parse(file);
        String family = text(root, "model_type", "");
        if (!Family.modelTypes().contains(family)) {
            throw new ModelException(
                    file + ": model_type '" + family + "' is not supported; supported are " + Family.modelTypes());
        }
        try {
            refuse(root, family);
            ModelSpec spec = spec(directory, root, family);
            spec.config(); // checks the sizes
            return spec;
        } catch (ModelException e) {
            throw new ModelException(file + ": " + e.getMessage());
        }
    }

    private static ModelSpec spec(Path directory, JsonNode root, String family) {
        int hidden = require(root, "hidden_size");
        int heads = require(root, "num_attention_heads");
        int headDim = integer(root, "head_dim", heads > 0 ? hidden / heads : 0);
        int context = integer(root, "max_position_embeddings", 2048);
        int layers = ModelSpec.requireLayers(require(root, "num_hidden_layers"));
        Rope.Rotary rotary = rotary(root, family, headDim, context);
        QkNorm norm = switch (family) {
            case "qwen3" -> QkNorm.PER_HEAD;
            case "olmo2" -> QkNorm.WHOLE_ROW;
            default -> QkNorm.NONE;
        };
        boolean bias = family.equals("qwen2") || root.path("attention_bias").asBoolean(false);
        int kvHeads = integer(root, "num_key_value_heads", heads);
        int intermediate = require(root, "intermediate_size");
        NormPlacement norms = family.equals("olmo2") ? NormPlacement.AFTER : NormPlacement.BEFORE;
        List<LayerSpec> specs = new ArrayList<>();
        for (int layer = 0; layer < layers; layer++) {
            Rope rope = rotates(root, family, layer) ? rotary : new Rope.None();
            specs.add(new LayerSpec(
                    new LayerSpec.Attention(heads, kvHeads, headDim, rope, norm, bias), intermediate, norms));
        }
        return new ModelSpec(
                family,
                hidden,
                require(root, "vocab_size"),
                originalContext(root, family, context),
                number(root, "rms_norm_eps", 1e-6),
                root.path("tie_word_embeddings").asBoolean(family.equals("smollm3")),
                slidingWindow(root, family),
                specs,
                fileType(root),
                endTokens(directory, root));
    }

    /** Refuses by name what changes the computation and is not supported. */
    private static void refuse(JsonNode root, String family) {
        String activation = text(root, "hidden_act", "silu");
        if (!activation.equals("silu")) {
            throw new ModelException("hidden_act '" + activation + "' is not supported; silu is");
        }
        double partial = number(rope(root), "partial_rotary_factor", number(root, "partial_rotary_factor", 1));
        if (partial != 1 && !family.equals("phi3")) {
            throw new ModelException("partial_rotary_factor " + partial + " is not supported in models of the family "
                    + family + "; 1 is, and other values in phi3");
        }
        for (String key : REFUSED_FLAGS) {
            if (root.path(key).asBoolean(false)) {
                throw new ModelException(key + " is true; models with it are not supported");
            }
        }
        for (String key : REFUSED_VALUES) {
            if (!root.path(key).isMissingNode() && !root.path(key).isNull()) {
                throw new ModelException(key + " is " + root.get(key) + "; models with it are not supported");
            }
        }
        root.path("layer_types").forEach(type -> {
            if (!type.asString("").equals("full_attention")
                    && !type.asString("").equals("sliding_attention")) {
                throw new ModelException(
                        "layer_types has " + type + "; supported are full_attention and sliding_attention");
            }
        });
    }

    /** Whether a layer rotates; in SmolLM3's list 1 means that it does. */
    private static boolean rotates(JsonNode root, String family, int layer) {
        if (!family.equals("smollm3")) {
            return true;
        }
        JsonNode list = root.path("no_rope_layers");
        if (!list.isArray()) {
            int interval = integer(root, "no_rope_layer_interval", 4);
            if (interval < 2) {
                throw new ModelException("no_rope_layer_interval is " + interval + "; it must be at least 2");
            }
            return (layer + 1) % interval != 0;
        }
        if (!list.path(layer).isIntegralNumber()) {
            throw new ModelException("no_rope_layers has " + list.size() + " entries, none for layer " + layer);
        }
        return list.path(layer).intValue() != 0;
    }

    private static Rope.Rotary rotary(JsonNode root, String family, int headDim, int context) {
        JsonNode rope = rope(root);
        double theta = number(rope, "rope_theta", number(root, "rope_theta", 10_000));
        double partial = number(rope, "partial_rotary_factor", number(root, "partial_rotary_factor", 1));
        int dims = (int) (headDim * partial);
        if (isLongRope(rope, family)) {
            int original = originalContext(root, family, context);
            double factor = number(rope, "factor", (double) context / original);
            double magnitude = number(rope, "attention_factor", LongRope.magnitude(factor, original));
            return new Rope.Rotary(dims, theta, new RopeScaling.Divisors(floats(rope, "short_factor")), magnitude);
        }
        return new Rope.Rotary(dims, theta, ropeScaling(rope, context), 1);
    }

    /** Phi-3's first files call LongRoPE "su" or "yarn". */
    private static boolean isLongRope(JsonNode rope, String family) {
        String type = text(rope, "rope_type", text(rope, "type", "default"));
        return family.equals("phi3") && Set.of("longrope", "su", "yarn").contains(type);
    }

    /** The usable context: with LongRoPE that of its short factors, see {@link LongRope}. */
    private static int originalContext(JsonNode root, String family, int context) {
        JsonNode rope = rope(root);
        if (!isLongRope(rope, family)) {
            return context;
        }
        int original = integer(
                rope, "original_max_position_embeddings", integer(root, "original_max_position_embeddings", context));
        ModelConfig.requireWithin("original_max_position_embeddings", original, 1 << 30);
        return Math.min(original, context);
    }

    private static float[] floats(JsonNode node, String name) {
        JsonNode list = node.path(name);
        if (!list.isArray()) {
            throw new ModelException("the list '" + name + "' of rope scaling is missing");
        }
        float[] values = new float[list.size()];
        for (int i = 0; i < values.length; i++) {
            values[i] = (float) list.get(i).asDouble(Double.NaN);
        }
        return values;
    }

    private static JsonNode rope(JsonNode root) {
        return root.has("rope_parameters") ? root.get("rope_parameters") : root.path("rope_scaling");
    }

    public static GenerationDefaults readGenerationDefaults(Path directory) {
        Path file = directory.resolve("generation_config.json");
        if (!Files.exists(file)) {
            return GenerationDefaults.NONE;
        }
        JsonNode root = parse(file);
        boolean sample = root.path("do_sample").asBoolean(true);
        return new GenerationDefaults(
                sample ? optional(root, "temperature") : Optional.empty(),
                sample ? optional(root, "top_p") : Optional.empty(),
                sample ? optional(root, "top_k").map(Double::intValue) : Optional.empty(),
                optional(root, "repetition_penalty"));
    }

    private static RopeScaling ropeScaling(JsonNode rope, int context) {
        String type = text(rope, "rope_type", text(rope, "type", "default"));
        return switch (type) {
            case "default" -> RopeScaling.NONE;
            case "linear" -> new RopeScaling.Linear(number(rope, "factor", 1));
            case "llama3" ->
                new RopeScaling.Llama3(
                        number(rope, "factor", 8),
                        number(rope, "low_freq_factor", 1),
                        number(rope, "high_freq_factor", 4),
                        integer(rope, "original_max_position_embeddings", context));
            default ->
                throw new ModelException(
                        "rope scaling '" + type + "' is not supported; supported are default, linear and llama3");
        };
    }

    private static int slidingWindow(JsonNode root, String family) {
        boolean used = family.equals("mistral")
                || family.equals("phi3")
                || root.path("use_sliding_window").asBoolean(false);
        return used ? integer(root, "sliding_window", 0) : 0;
    }

    private static DataType fileType(JsonNode root) {
        return switch (text(root, "dtype", text(root, "torch_dtype", "float32"))) {
            case "bfloat16" -> DataType.BFLOAT16;
            case "float16" -> DataType.FLOAT16;
            default -> DataType.FLOAT32;
        };
    }

    private static Set<Integer> endTokens(Path directory, JsonNode root) {
        Set<Integer> tokens = new HashSet<>();
        addTokens(tokens, root.path("eos_token_id"));
        Path generation = directory.resolve("generation_config.json");
        if (Files.exists(generation)) {
            addTokens(tokens, parse(generation).path("eos_token_id"));
        }
        return tokens;
    }

    private static void addTokens(Set<Integer> tokens, JsonNode node) {
        if (node.isArray()) {
            node.forEach(token -> addTokens(tokens, token));
        } else if (!node.isMissingNode() && !node.isNull()) {
            if (!node.isIntegralNumber() || !node.canConvertToInt()) {
                throw new ModelException("eos_token_id is " + node + "; it must be a token id, or a list of them");
            }
            tokens.add(node.intValue());
        }
    }

    private static JsonNode parse(Path file) {
        try {
            return JSON.readTree(ModelFile.read(file, MAX_BYTES));
        } catch (IOException e) {
            throw new ModelException(file + " cannot be read; a model directory needs it", e);
        } catch (JacksonException e) {
            throw new ModelException(file + " is not valid JSON: " + e.getOriginalMessage(), e);
        }
    }

    private static int require(JsonNode root, String name) {
        if (!root.path(name).isIntegralNumber()) {
            throw new ModelException("the integer '" + name + "' is missing");
        }
        return integer(root, name, 0);
    }

    private static int integer(JsonNode node, String name, int defaultValue) {
        JsonNode value = node.path(name);
        if (value.isIntegralNumber() && !value.canConvertToInt()) {
            throw new ModelException(name + " is " + value + "; it must be at most " + Integer.MAX_VALUE);
        }
        return value.isIntegralNumber() ? value.intValue() : defaultValue;
    }

    private static double number(JsonNode node, String name, double defaultValue) {
        return node.path(name).isNumber() ? node.get(name).asDouble() : defaultValue;
    }

    private static String text(JsonNode node, String name, String defaultValue) {
        return node.path(name).isString() ? node.get(name).asString() : defaultValue;
    }

    private static Optional<Double> optional(JsonNode node, String name) {
        return node.path(name).isNumber() ? Optional.of(node.get(name).asDouble()) : Optional.empty();
    }
}
