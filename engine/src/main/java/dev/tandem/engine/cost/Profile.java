package dev.tandem.engine.cost;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.OptionalDouble;
import java.util.TreeMap;
import java.util.function.ToDoubleFunction;

/**
 * Measured times of one machine, model, dtype and thread count. NEO §3.2 and APEX §3.1 measure the same times offline.
 * Times are seconds of one layer; {@code transfer} is of all layers, {@code preLayer} and {@code postLayer} are of a
 * step.
 *
 * @param name of what was measured: machine, model, dtype and threads; the profile is valid for nothing else
 * @param layers of the measured model
 * @param linear GEMMs of a layer, by tokens
 * @param prefillAttention by pairs of query token and context token
 * @param gpuAttention of decode tokens on the GPU, by the sum of their contexts in tokens
 * @param cpuAttention of decode tokens on the CPU: by number of tokens, a curve over context tokens per token
 * @param transfer of KV between the tiers, by bytes
 * @param preLayer embedding, by tokens
 * @param postLayer logits and sampling, by sampled tokens
 * @param stepOverhead once per step
 * @param stageOverhead once per stage of each layer when two sub-batches take turns
 * @param tripOverhead once per layer when a batch waits for the CPU: the way there and back; a profile without it has
 *     twice {@code stageOverhead}
 * @param tokenOverhead of the GPU, per host token that a stage waits for and layer: what it sends and receives
 * @param hostLoad factor by which a GPU step takes longer while the CPU computes attention: 1.05 is five per cent; 1
 *     where the two do not overlap
 */
public record Profile(
        String name,
        int layers,
        Curve linear,
        Curve prefillAttention,
        Curve gpuAttention,
        TreeMap<Integer, Curve> cpuAttention,
        Curve transfer,
        Curve preLayer,
        Curve postLayer,
        double stepOverhead,
        double stageOverhead,
        double tripOverhead,
        double tokenOverhead,
        double hostLoad) {
    private static final String LINEAR = "linear";
    private static final String PREFILL_ATTENTION = "prefill-attention";
    private static final String GPU_ATTENTION = "gpu-attention";
    private static final String TRANSFER = "transfer";
    private static final String PRE_LAYER = "pre-layer";
    private static final String POST_LAYER = "post-layer";
    private static final List<String> CURVES =
            List.of(LINEAR, PREFILL_ATTENTION, GPU_ATTENTION, TRANSFER, PRE_LAYER, POST_LAYER);

    /** @throws ProfileException when a value is impossible */
    public Profile {
        if (layers < 1) {
            throw new ProfileException("the profile has " + layers + " layers; it needs at least 1."
                    + " Measure again with tandem profile");
        }
        if (cpuAttention.isEmpty()) {
            throw new ProfileException("the profile has no cpu-attention; it needs at least one curve."
                    + " Measure again with tandem profile");
        }
        checkOverhead("step-overhead", stepOverhead);
        checkOverhead("stage-overhead", stageOverhead);
        checkOverhead("trip-overhead", tripOverhead);
        checkOverhead("token-overhead", tokenOverhead);
        if (!(hostLoad >= 1) || hostLoad == Double.POSITIVE_INFINITY) {
            throw new ProfileException(
                    "host-load is " + hostLoad + "; it must be 1 or more. Measure again with tandem profile");
        }
    }

    private static void checkOverhead(String what, double seconds) {
        if (!(seconds >= 0) || seconds == Double.POSITIVE_INFINITY) {
            throw new ProfileException(
                    what + " is " + seconds + " s; it must be zero or more. Measure again with tandem profile");
        }
    }

    /** This profile with another stage overhead, in seconds, and a trip overhead of twice as much. */
    public Profile withStageOverhead(double seconds) {
        return builder(name, layers)
                .linear(linear)
                .prefillAttention(prefillAttention)
                .gpuAttention(gpuAttention)
                .cpuAttention(cpuAttention)
                .transfer(transfer)
                .preLayer(preLayer)
                .postLayer(postLayer)
                .stepOverhead(stepOverhead)
                .stageOverhead(seconds)
                .tokenOverhead(tokenOverhead)
                .hostLoad(hostLoad)
                .build();
    }

    /**
     * Returns a builder of a profile without overheads.
     *
     * @param name of what was measured
     * @param layers of the measured model
     */
    public static Builder builder(String name, int layers) {
        return new Builder(name, layers);
    }

    /** Builds a {@link Profile}; all curves must be set. */
    public static final class Builder {
        private final String name;
        private final int layers;
        private final Map<String, Curve> curves = new HashMap<>();
        private TreeMap<Integer, Curve> cpuAttention = new TreeMap<>();
        private double stepOverhead;
        private double stageOverhead;
        private OptionalDouble tripOverhead = OptionalDouble.empty();
        private double tokenOverhead;
        private double hostLoad = 1;

        private Builder(String name, int layers) {
            this.name = name;
            this.layers = layers;
        }

        private Builder curve(String component, Curve value) {
            curves.put(component, value);
            return this;
        }

        private Curve curve(String component) {
            Curve value = curves.get(component);
            if (value == null) {
                throw new ProfileException("the profile has no " + component + ". Measure again with tandem profile");
            }
            return value;
        }

        /** Sets the GEMMs of a layer, by tokens. */
        public Builder linear(Curve value) {
            return curve(LINEAR, value);
        }

        /** Sets prefill attention of a layer, by pairs of query token and context token. */
        public Builder prefillAttention(Curve value) {
            return curve(PREFILL_ATTENTION, value);
        }

        /** Sets decode attention of a layer on the GPU, by the sum of contexts. */
        public Builder gpuAttention(Curve value) {
            return curve(GPU_ATTENTION, value);
        }

        /** Sets decode attention of a layer on the CPU: by tokens, a curve over context tokens per token. */
        public Builder cpuAttention(Map<Integer, Curve> value) {
            cpuAttention = new TreeMap<>(value);
            return this;
        }

        /** Sets the transfer of KV between the tiers, by bytes. */
        public Builder transfer(Curve value) {
            return curve(TRANSFER, value);
        }

        /** Sets the embedding, by tokens. */
        public Builder preLayer(Curve value) {
            return curve(PRE_LAYER, value);
        }

        /** Sets logits and sampling, by sampled tokens. */
        public Builder postLayer(Curve value) {
            return curve(POST_LAYER, value);
        }

        /** Sets the seconds between steps. */
        public Builder stepOverhead(double seconds) {
            stepOverhead = seconds;
            return this;
        }

        /** Sets the seconds per stage of each layer when two sub-batches take turns. */
        public Builder stageOverhead(double seconds) {
            stageOverhead = seconds;
            return this;
        }

        /** Sets the seconds per layer when a batch waits for the CPU; twice the stage overhead unless set. */
        public Builder tripOverhead(double seconds) {
            tripOverhead = OptionalDouble.of(seconds);
            return this;
        }

        /** Sets the GPU's seconds per layer for each host token that a stage waits for; 0 unless set. */
        public Builder tokenOverhead(double seconds) {
            tokenOverhead = seconds;
            return this;
        }

        /** Sets the factor by which a GPU step takes longer while the CPU computes attention; 1 unless set. */
        public Builder hostLoad(double factor) {
            hostLoad = factor;
            return this;
        }

        /**
         * Builds the profile.
         *
         * @throws ProfileException when a curve is missing or a value is impossible
         */
        public Profile build() {
            return new Profile(
                    name,
                    layers,
                    curve(LINEAR),
                    curve(PREFILL_ATTENTION),
                    curve(GPU_ATTENTION),
                    cpuAttention,
                    curve(TRANSFER),
                    curve(PRE_LAYER),
                    curve(POST_LAYER),
                    stepOverhead,
                    stageOverhead,
                    tripOverhead.orElse(2 * stageOverhead),
                    tokenOverhead,
                    hostLoad);
        }
    }

    /**
     * This profile with the times of each component multiplied by a positive factor.
     *
     * @param overheads factor of the fixed times per step, stage, trip and host token
     */
    public Profile scaled(ToDoubleFunction<Component> factor, double overheads) {
        TreeMap<Integer, Curve> cpu = new TreeMap<>();
        cpuAttention.forEach(
                (tokens, curve) -> cpu.put(tokens, curve.scaled(factor.applyAsDouble(Component.CPU_ATTENTION))));
        return new Profile(
                name,
                layers,
                linear.scaled(factor.applyAsDouble(Component.LINEAR)),
                prefillAttention.scaled(factor.applyAsDouble(Component.PREFILL_ATTENTION)),
                gpuAttention.scaled(factor.applyAsDouble(Component.GPU_ATTENTION)),
                cpu,
                transfer.scaled(factor.applyAsDouble(Component.TRANSFER)),
                preLayer.scaled(factor.applyAsDouble(Component.PRE_LAYER)),
                postLayer.scaled(factor.applyAsDouble(Component.POST_LAYER)),
                stepOverhead * overheads,
                stageOverhead * overheads,
                tripOverhead * overheads,
                tokenOverhead * overheads,
                hostLoad);
    }

    /** Formats the profile as text: one value per line, {@code #} begins a comment. */
    public String format() {
        StringBuilder text = new StringBuilder(
                "# Tandem profile: seconds by size. To measure again, delete this file or run tandem profile.\n");
        text.append("name ").append(name).append('\n');
        text.append("layers ").append(layers).append('\n');
        Map<String, Curve> curves = new LinkedHashMap<>();
        List<Curve> values = List.of(linear, prefillAttention, gpuAttention, transfer, preLayer, postLayer);
        for (int i = 0; i < CURVES.size(); i++) {
            curves.put(CURVES.get(i), values.get(i));
        }
        cpuAttention.forEach((rows, curve) -> curves.put("cpu-attention/" + rows, curve));
        curves.forEach((curve, points) -> {
            for (int i = 0; i < points.sizes().length; i++) {
                text.append(
                        String.format(Locale.ROOT, "%s %.0f %.4g%n", curve, points.sizes()[i], points.seconds()[i]));
            }
        });
        text.append(String.format(Locale.ROOT, "step-overhead %.4g%n", stepOverhead));
        text.append(String.format(Locale.ROOT, "stage-overhead %.4g%n", stageOverhead));
        text.append(String.format(Locale.ROOT, "trip-overhead %.4g%n", tripOverhead));
        text.append(String.format(Locale.ROOT, "token-overhead %.4g%n", tokenOverhead));
        text.append(String.format(Locale.ROOT, "host-load %.4g%n", hostLoad));
        return text.toString();
    }

    /**
     * Parses the text that {@link #format} makes.
     *
     * @param origin names the source of the text in errors
     * @throws ProfileException that names the invalid line
     */
    public static Profile parse(String text, String origin) {
        Map<String, List<double[]>> points = new LinkedHashMap<>();
        Map<String, String> values = new LinkedHashMap<>();
        int number = 0;
        for (String line : text.split("\n")) {
            number++;
            String stripped = line.strip();
            if (stripped.isEmpty() || stripped.startsWith("#")) {
                continue;
            }
            String[] words = stripped.split("\\s+", 2);
            String[] numbers = words.length == 2 ? words[1].split("\\s+") : new String[0];
            String where = origin + " line " + number;
            if (words[0].equals("name") || numbers.length == 1) {
                values.put(words[0], words.length == 2 ? words[1] : "");
            } else if (numbers.length == 2) {
                points.computeIfAbsent(words[0], key -> new ArrayList<>())
                        .add(new double[] {parseNumber(numbers[0], where), parseNumber(numbers[1], where)});
            } else {
                throw new ProfileException(where + " is '" + stripped + "'; expected a name, a size and a time");
            }
        }
        TreeMap<Integer, Curve> cpu = new TreeMap<>();
        points.forEach((name, list) -> {
            if (name.startsWith("cpu-attention/")) {
                cpu.put((int) parseNumber(name.substring(14), origin), curve(origin + ": " + name, list));
            }
        });
        Builder builder =
                builder(values.getOrDefault("name", ""), (int) parseNumber(values.getOrDefault("layers", "0"), origin));
        for (String name : CURVES) {
            builder.curve(name, curve(origin + ": " + name, points.getOrDefault(name, List.of())));
        }
        if (values.containsKey("trip-overhead")) {
            builder.tripOverhead(parseNumber(values.get("trip-overhead"), origin));
        }
        return builder.cpuAttention(cpu)
                .stepOverhead(parseNumber(values.getOrDefault("step-overhead", "0"), origin))
                .stageOverhead(parseNumber(values.getOrDefault("stage-overhead", "0"), origin))
                .tokenOverhead(parseNumber(values.getOrDefault("token-overhead", "0"), origin))
                .hostLoad(parseNumber(values.getOrDefault("host-load", "1"), origin))
                .build();
    }

    private static Curve curve(String name, List<double[]> points) {
        return new Curve(
                name,
                points.stream().mapToDouble(p -> p[0]).toArray(),
                points.stream().mapToDouble(p -> p[1]).toArray());
    }

    private static double parseNumber(String text, String where) {
        try {
            return Double.parseDouble(text);
        } catch (NumberFormatException e) {
            throw new ProfileException(where + ": '" + text + "' is not a number; measure again with tandem profile");
        }
    }
}
