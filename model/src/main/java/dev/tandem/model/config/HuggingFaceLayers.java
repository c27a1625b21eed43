package dev.tandem.model.config;

import static dev.tandem.model.config.HuggingFaceConfig.integer;
import static dev.tandem.model.config.HuggingFaceConfig.number;
import static dev.tandem.model.config.HuggingFaceConfig.text;

import dev.tandem.model.ModelException;
import java.util.Optional;
import java.util.Set;
import tools.jackson.databind.JsonNode;

/** Reads from {@code config.json} what may differ from layer to layer: which have a window, and how they rotate. */
final class HuggingFaceLayers {
    /** Families whose layers have different rotations with a window and without. */
    private static final Set<String> TWO_ROTATIONS = Set.of("gemma3_text", "olmo3");

    static final String SLIDING = "sliding_attention";
    static final String FULL = "full_attention";

    private final JsonNode root;
    private final String family;
    private final int headDim;
    private final int context;
    private final Optional<Integer> requested;

    /**
     * @param context max_position_embeddings
     * @param requested max tokens of a sequence as the user asks for them
     */
    HuggingFaceLayers(JsonNode root, String family, int headDim, int context, Optional<Integer> requested) {
        this.root = root;
        this.family = family;
        this.headDim = headDim;
        this.context = context;
        this.requested = requested;
    }

    /** The window of a layer; 0 for none. */
    int window(int layer) {
        return slides(layer) ? SlidingWindow.within(sizeOfWindow(), contextTokens()) : 0;
    }

    /** An absent window is 4,096 where transformers has that default; an explicit null is none. */
    private int sizeOfWindow() {
        boolean none = family.equals("phi3") || family.equals("smollm3");
        return root.has("sliding_window") ? integer(root, "sliding_window", 0) : none ? 0 : 4096;
    }

    private boolean slides(int layer) {
        return switch (family) {
            case "mistral", "phi3" -> true; // they do not read layer_types
            case "qwen2", "qwen3" -> uses() && listed(layer, layer >= integer(root, "max_window_layers", 28));
            case "smollm3" -> uses() && listed(layer, !rotates(layer));
            case "olmo3" -> listed(layer, (layer + 1) % 4 != 0);
            case "gemma3_text" -> listed(layer, (layer + 1) % pattern() != 0);
            default -> false;
        };
    }

    private boolean uses() {
        return root.path("use_sliding_window").asBoolean(false);
    }

    private int pattern() {
        int pattern = integer(root, "sliding_window_pattern", 6);
        if (pattern < 1) {
            throw new ModelException("sliding_window_pattern is " + pattern + "; it must be at least 1");
        }
        return pattern;
    }

    private boolean listed(int layer, boolean otherwise) {
        JsonNode types = root.path("layer_types");
        if (!types.isArray()) {
            return otherwise;
        }
        if (layer >= types.size()) {
            throw new ModelException("layer_types has " + types.size() + " entries, none for layer " + layer);
        }
        return types.get(layer).asString("").equals(SLIDING);
    }

    /** The rotation of a layer. */
    Rope rope(int layer) {
        return rotates(layer) ? rotary(slides(layer)) : new Rope.None();
    }

    /** Whether a layer rotates; in SmolLM3's list 1 means that it does. */
    private boolean rotates(int layer) {
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

    private Rope.Rotary rotary(boolean slides) {
        JsonNode rope = parameters(slides);
        double theta = number(rope, "rope_theta", theta(slides));
        double partial = number(rope, "partial_rotary_factor", number(root, "partial_rotary_factor", 1));
        if (partial != 1 && !family.equals("phi3")) {
            throw new ModelException("partial_rotary_factor " + partial + " is not supported in models of the family "
                    + family + "; 1 is, and other values in phi3");
        }
        int dims = (int) (headDim * partial);
        if (isLongRope(rope)) {
            int original = originalContext(rope);
            double factor = number(rope, "factor", (double) context / original);
            double magnitude = number(rope, "attention_factor", RopeScaling.LongRope.usualMagnitude(factor, original));
            float[] divisors = floats(rope, contextTokens() > original ? "long_factor" : "short_factor");
            RopeScaling scaling = new RopeScaling.LongRope(new RopeScaling.Divisors(divisors), original, context);
            return new Rope.Rotary(dims, theta, scaling, magnitude);
        }
        RopeScaling scaling = scaling(rope);
        return new Rope.Rotary(dims, theta, scaling, magnitude(rope, scaling));
    }

    /** The base of layers of one kind where the parameters have none. */
    private double theta(boolean slides) {
        if (family.equals("gemma3_text")) {
            return slides ? number(root, "rope_local_base_freq", 10_000) : number(root, "rope_theta", 1_000_000);
        }
        return number(root, "rope_theta", family.equals("olmo3") ? 500_000 : 10_000);
    }

    /** The rotation's parameters. With two rotations, only layers without a window scale by {@code rope_scaling}. */
    private JsonNode parameters(boolean slides) {
        JsonNode parameters = root.path("rope_parameters");
        if (!TWO_ROTATIONS.contains(family)) {
            return root.has("rope_parameters") ? parameters : root.path("rope_scaling");
        }
        if (parameters.has(FULL) || parameters.has(SLIDING)) {
            return parameters.path(slides ? SLIDING : FULL);
        }
        return slides ? root.path("none") : root.path("rope_scaling");
    }

    /** Phi-3's first files call LongRoPE "su" or "yarn". */
    private boolean isLongRope(JsonNode rope) {
        String type = text(rope, "rope_type", text(rope, "type", "default"));
        return family.equals("phi3") && Set.of("longrope", "su", "yarn").contains(type);
    }

    /** The usable context: with LongRoPE that of the divisors that are chosen. */
    int contextTokens() {
        JsonNode rope = parameters(false);
        return isLongRope(rope)
                ? RopeScaling.LongRope.contextTokens(originalContext(rope), context, requested)
                : context;
    }

    private int originalContext(JsonNode rope) {
        int original = integer(
                rope, "original_max_position_embeddings", integer(root, "original_max_position_embeddings", context));
        ModelConfig.requireWithin("original_max_position_embeddings", original, 1 << 30);
        return Math.min(original, context);
    }

    private RopeScaling scaling(JsonNode rope) {
        String type = text(rope, "rope_type", text(rope, "type", "default"));
        int original = integer(rope, "original_max_position_embeddings", context);
        return switch (type) {
            case "default" -> RopeScaling.NONE;
            case "linear" -> new RopeScaling.Linear(number(rope, "factor", 1));
            case "llama3" ->
                new RopeScaling.Llama3(
                        number(rope, "factor", 8),
                        number(rope, "low_freq_factor", 1),
                        number(rope, "high_freq_factor", 4),
                        original);
            case "yarn" -> {
                if (rope.hasNonNull("mscale") || rope.hasNonNull("mscale_all_dim")) {
                    throw new ModelException("rope scaling 'yarn' with mscale is not supported");
                }
                yield new RopeScaling.Yarn(
                        number(rope, "factor", (double) context / Math.max(1, original)),
                        number(rope, "beta_fast", 32),
                        number(rope, "beta_slow", 1),
                        original,
                        rope.path("truncate").asBoolean(true));
            }
            default ->
                throw new ModelException(
                        "rope scaling '" + type + "' is not supported; supported are default, linear, llama3 and yarn");
        };
    }

    private static double magnitude(JsonNode rope, RopeScaling scaling) {
        return scaling instanceof RopeScaling.Yarn yarn ? number(rope, "attention_factor", yarn.usualMagnitude()) : 1;
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
}
