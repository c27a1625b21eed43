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
import tools.jackson.databind.node.ObjectNode;

/** Reads {@code config.json} and {@code generation_config.json}, in the formats of transformers 4 and 5. */
public final class HuggingFaceConfig {
    private static final ObjectMapper JSON = new ObjectMapper();
    /** Configurations take a few KiB. */
    private static final long MAX_BYTES = 4 << 20;

    /** Gemma's factor of scores is one divided by the root of this. */
    private static final String QUERY_SCALAR = "query_pre_attn_scalar";

    private static final List<String> REFUSED_FLAGS = List.of("mlp_bias", "use_mrope", "use_bidirectional_attention");
    private static final List<String> REFUSED_VALUES = List.of(
            "quantization_config",
            "attn_logit_softcapping",
            "final_logit_softcapping",
            QUERY_SCALAR,
            "num_experts",
            "num_local_experts",
            "embedding_multiplier",
            "residual_multiplier",
            "logits_scaling",
            "attention_multiplier",
            "clip_qkv");

    /** What a model that takes images says beside its {@code text_config}. */
    private static final List<String> OF_ALL_PARTS =
            List.of("dtype", "torch_dtype", "eos_token_id", "tie_word_embeddings", "quantization_config");

    private HuggingFaceConfig() {}

    /**
     * Reads what a model computes from {@code config.json}.
     *
     * @param maxModelLen max tokens of a sequence as the user asks for them, which choose LongRoPE's divisors
     * @throws ModelException when a value is missing, impossible, or asks for a computation that is not supported
     */
    public static ModelSpec read(Path directory, Optional<Integer> maxModelLen) {
        Path file = directory.resolve("config.json");
        JsonNode whole = parse(file);
        String modelType = text(whole, "model_type", "");
        if (!Family.modelTypes().contains(modelType)) {
            throw new ModelException(
                    file + ": model_type '" + modelType + "' is not supported; supported are " + Family.modelTypes());
        }
        try {
            Optional<Family> ofText = Family.ofTextPart(modelType);
            JsonNode root = ofText.isPresent() ? textPart(whole) : whole;
            String family = ofText.map(Family::modelType).orElse(modelType);
            refuse(root, family);
            ModelSpec spec = spec(directory, root, family, maxModelLen);
            spec.config(); // checks the sizes
            return spec;
        } catch (ModelException e) {
            throw new ModelException(file + ": " + e.getMessage());
        }
    }

    /** Whether a directory has a model that also takes images, of which the text part is read. */
    public static boolean takesImages(Path directory) {
        return Family.ofTextPart(text(parse(directory.resolve("config.json")), "model_type", ""))
                .isPresent();
    }

    /** The text part of a model's configuration, with what the file says of all parts. */
    private static JsonNode textPart(JsonNode whole) {
        if (!(whole.path("text_config") instanceof ObjectNode text)) {
            throw new ModelException("'text_config' is missing; a model that takes images needs it");
        }
        ObjectNode part = text.deepCopy();
        for (String key : OF_ALL_PARTS) {
            if (whole.hasNonNull(key)) {
                part.set(key, whole.get(key));
            }
        }
        return part;
    }

    /** Gemma's files leave out what is a default of transformers. */
    private static ModelSpec spec(Path directory, JsonNode root, String family, Optional<Integer> maxModelLen) {
        boolean gemma = family.equals("gemma3_text");
        int hidden = require(root, "hidden_size");
        int heads = gemma ? integer(root, "num_attention_heads", 8) : require(root, "num_attention_heads");
        int headDim = integer(root, "head_dim", gemma ? 256 : heads > 0 ? hidden / heads : 0);
        int context = integer(root, "max_position_embeddings", gemma ? 1 << 17 : 2048);
        int layers = ModelSpec.requireLayers(require(root, "num_hidden_layers"));
        HuggingFaceLayers kinds = new HuggingFaceLayers(root, family, headDim, context, maxModelLen);
        QkNorm norm = switch (family) {
            case "qwen3", "gemma3_text" -> QkNorm.PER_HEAD;
            case "olmo2", "olmo3" -> QkNorm.WHOLE_ROW;
            default -> QkNorm.NONE;
        };
        NormPlacement norms = switch (family) {
            case "gemma3_text" -> NormPlacement.BOTH;
            case "olmo2", "olmo3" -> NormPlacement.AFTER;
            default -> NormPlacement.BEFORE;
        };
        boolean bias = family.equals("qwen2") || root.path("attention_bias").asBoolean(false);
        double scale = gemma ? 1 / Math.sqrt(number(root, QUERY_SCALAR, 256)) : LayerSpec.Attention.usualScale(headDim);
        int kvHeads = integer(root, "num_key_value_heads", gemma ? 4 : heads);
        int intermediate = require(root, "intermediate_size");
        List<LayerSpec> specs = new ArrayList<>();
        for (int layer = 0; layer < layers; layer++) {
            LayerSpec.Attention attention = new LayerSpec.Attention(
                    heads, kvHeads, headDim, scale, kinds.window(layer), kinds.rope(layer), norm, bias);
            specs.add(new LayerSpec(attention, intermediate, gemma ? Activation.GELU_TANH : Activation.SILU, norms));
        }
        return new ModelSpec(
                family,
                hidden,
                gemma ? integer(root, "vocab_size", 262_208) : require(root, "vocab_size"),
                kinds.contextTokens(),
                number(root, "rms_norm_eps", 1e-6),
                gemma ? Math.sqrt(hidden) : 1,
                root.path("tie_word_embeddings").asBoolean(gemma || family.equals("smollm3")),
                specs,
                fileType(root),
                endTokens(directory, root));
    }

    /** Refuses by name what changes the computation and is not supported. */
    private static void refuse(JsonNode root, String family) {
        boolean gemma = family.equals("gemma3_text");
        String key = gemma ? "hidden_activation" : "hidden_act";
        String supported = gemma ? "gelu_pytorch_tanh" : "silu";
        String activation = text(root, key, supported);
        if (!activation.equals(supported)) {
            throw new ModelException(key + " '" + activation + "' is not supported; " + supported + " is");
        }
        for (String flag : REFUSED_FLAGS) {
            if (root.path(flag).asBoolean(false)) {
                throw new ModelException(flag + " is true; models with it are not supported");
            }
        }
        for (String value : REFUSED_VALUES) {
            boolean known = gemma && value.equals(QUERY_SCALAR);
            if (root.hasNonNull(value) && !known) {
                throw new ModelException(value + " is " + root.get(value) + "; models with it are not supported");
            }
        }
        root.path("layer_types").forEach(type -> {
            String name = type.asString("");
            if (!name.equals(HuggingFaceLayers.FULL) && !name.equals(HuggingFaceLayers.SLIDING)) {
                throw new ModelException(
                        "layer_types has " + type + "; supported are full_attention and sliding_attention");
            }
        });
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

    static int integer(JsonNode node, String name, int defaultValue) {
        JsonNode value = node.path(name);
        if (value.isIntegralNumber() && !value.canConvertToInt()) {
            throw new ModelException(name + " is " + value + "; it must be at most " + Integer.MAX_VALUE);
        }
        return value.isIntegralNumber() ? value.intValue() : defaultValue;
    }

    static double number(JsonNode node, String name, double defaultValue) {
        return node.path(name).isNumber() ? node.get(name).asDouble() : defaultValue;
    }

    static String text(JsonNode node, String name, String defaultValue) {
        return node.path(name).isString() ? node.get(name).asString() : defaultValue;
    }

    private static Optional<Double> optional(JsonNode node, String name) {
        return node.path(name).isNumber() ? Optional.of(node.get(name).asDouble()) : Optional.empty();
    }
}
