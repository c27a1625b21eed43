package dev.tandem.model.config;

import dev.tandem.model.ModelException;
import dev.tandem.model.ModelFile;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashSet;
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

    private HuggingFaceConfig() {}

    public static ModelConfig read(Path directory) {
        Path file = directory.resolve("config.json");
        JsonNode root = parse(file);
        String family = text(root, "model_type", "");
        if (!ModelConfig.FAMILIES.contains(family)) {
            throw new ModelException(file + ": model_type '" + family + "' is not supported; supported are "
                    + ModelConfig.FAMILIES.stream().sorted().toList());
        }
        String activation = text(root, "hidden_act", "silu");
        if (!activation.equals("silu")
                || number(rope(root), "partial_rotary_factor", number(root, "partial_rotary_factor", 1)) != 1) {
            throw new ModelException(file + ": hidden_act '" + activation
                    + "' or a partial rotation is not supported; silu and rotation of whole heads are");
        }
        try {
            int hidden = require(root, "hidden_size");
            int heads = require(root, "num_attention_heads");
            JsonNode rope = rope(root);
            int context = integer(root, "max_position_embeddings", 2048);
            return new ModelConfig(
                    family,
                    hidden,
                    require(root, "num_hidden_layers"),
                    heads,
                    integer(root, "num_key_value_heads", heads),
                    integer(root, "head_dim", heads > 0 ? hidden / heads : 0),
                    require(root, "intermediate_size"),
                    require(root, "vocab_size"),
                    context,
                    number(root, "rms_norm_eps", 1e-6),
                    number(rope, "rope_theta", number(root, "rope_theta", 10_000)),
                    ropeScaling(rope, context),
                    root.path("tie_word_embeddings").asBoolean(false),
                    family.equals("qwen2") || root.path("attention_bias").asBoolean(false),
                    family.equals("qwen3"),
                    slidingWindow(root, family),
                    fileType(root),
                    endTokens(directory, root));
        } catch (ModelException e) {
            throw new ModelException(file + ": " + e.getMessage());
        }
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
        boolean used =
                family.equals("mistral") || root.path("use_sliding_window").asBoolean(false);
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
