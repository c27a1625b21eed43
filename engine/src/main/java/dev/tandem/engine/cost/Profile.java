package dev.tandem.engine.cost;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;

/**
 * Measured times of one machine, model, dtype and thread count: NEO §3.2 and APEX §3.1 profile the same offline. Times
 * are of one layer, in seconds, but for {@code transfer} (all layers), {@code preLayer} and {@code postLayer}.
 *
 * @param name of what was measured; a profile is used for nothing else
 * @param linear pre- and post-projection, by rows
 * @param prefillAttention by pairs of query row and context token
 * @param gpuAttention of decode rows, by their tokens of context together
 * @param cpuAttention of decode rows: by number of rows, a curve over tokens of context a row
 * @param transfer between the places, by bytes
 * @param preLayer embedding, by rows
 * @param postLayer logits and sampling, by outputs
 * @param stepOverhead once a step
 * @param stageOverhead once a stage of each layer when sub-batches alternate
 * @param tripOverhead once a layer when one batch waits for the CPU: the way there and back; of profiles that do not
 *     say, that of two stages
 * @param hostLoad how much longer a GPU step takes while the CPU attends: 1.05 is five per cent; 1 where nothing
 *     overlaps
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

    /** @throws ProfileException when a value is absurd */
    public Profile {
        if (layers < 1) {
            throw new ProfileException("a profile of " + layers + " layers; a model has at least one");
        }
        if (cpuAttention.isEmpty()) {
            throw new ProfileException("the profile has no cpu-attention; measure again with tandem profile");
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

    /** With another stage overhead, in seconds, and a trip of two. */
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

    /** One value a line, {@code #} begins a comment. */
    public String format() {
        StringBuilder text = new StringBuilder(
                "# Tandem profile: seconds by size. Delete it, or run tandem profile, to measure again.\n");
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
     * Parses the text that {@link #toString} makes.
     *
     * @param origin named in errors
     * @throws ProfileException that names the line
     */
    public static Profile parse(String text, String origin) {
        Map<String, List<double[]>> points = new LinkedHashMap<>();
        Map<String, String> single = new LinkedHashMap<>();
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
                single.put(words[0], words.length == 2 ? words[1] : "");
            } else if (numbers.length == 2) {
                points.computeIfAbsent(words[0], key -> new ArrayList<>())
                        .add(new double[] {real(numbers[0], where), real(numbers[1], where)});
            } else {
                throw new ProfileException(where + " is '" + stripped + "'; expected a name, a size and a time");
            }
        }
        TreeMap<Integer, Curve> cpu = new TreeMap<>();
        points.forEach((name, list) -> {
            if (name.startsWith("cpu-attention/")) {
                cpu.put((int) real(name.substring(14), origin), curve(origin + ": " + name, list));
            }
        });
        Curve[] curves = CURVES.stream()
                .map(name -> curve(origin + ": " + name, points.getOrDefault(name, List.of())))
                .toArray(Curve[]::new);
        double stage = real(single.getOrDefault("stage-overhead", "0"), origin);
        return new Profile(
                single.getOrDefault("name", ""),
                (int) real(single.getOrDefault("layers", "0"), origin),
                curves[0],
                curves[1],
                curves[2],
                cpu,
                curves[3],
                curves[4],
                curves[5],
                real(single.getOrDefault("step-overhead", "0"), origin),
                stage,
                single.containsKey("trip-overhead") ? real(single.get("trip-overhead"), origin) : 2 * stage,
                real(single.getOrDefault("host-load", "1"), origin));
    }

    private static Curve curve(String name, List<double[]> points) {
        return new Curve(
                name,
                points.stream().mapToDouble(p -> p[0]).toArray(),
                points.stream().mapToDouble(p -> p[1]).toArray());
    }

    private static double real(String text, String where) {
        try {
            return Double.parseDouble(text);
        } catch (NumberFormatException e) {
            throw new ProfileException(where + ": '" + text + "' is not a number; measure again with tandem profile");
        }
    }
}
