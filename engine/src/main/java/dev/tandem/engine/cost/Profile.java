package dev.tandem.engine.cost;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;

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
        double hostLoad) {
    private static final List<String> CURVES =
            List.of("linear", "prefill-attention", "gpu-attention", "transfer", "pre-layer", "post-layer");

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
        return new Profile(
                name,
                layers,
                linear,
                prefillAttention,
                gpuAttention,
                cpuAttention,
                transfer,
                preLayer,
                postLayer,
                stepOverhead,
                seconds,
                2 * seconds,
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
        Curve[] curves = CURVES.stream()
                .map(name -> curve(origin + ": " + name, points.getOrDefault(name, List.of())))
                .toArray(Curve[]::new);
        double stage = parseNumber(values.getOrDefault("stage-overhead", "0"), origin);
        return new Profile(
                values.getOrDefault("name", ""),
                (int) parseNumber(values.getOrDefault("layers", "0"), origin),
                curves[0],
                curves[1],
                curves[2],
                cpu,
                curves[3],
                curves[4],
                curves[5],
                parseNumber(values.getOrDefault("step-overhead", "0"), origin),
                stage,
                values.containsKey("trip-overhead") ? parseNumber(values.get("trip-overhead"), origin) : 2 * stage,
                parseNumber(values.getOrDefault("host-load", "1"), origin));
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
