package dev.tandem.app;

import dev.tandem.app.config.EditDistance;
import dev.tandem.fetch.WheelModel;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;

/**
 * A short name of a model, from a list that is committed with the code.
 *
 * @param licence of the model, and where that is known from
 */
record ShortName(String name, WheelModel model, String description, String licence) {
    private static final String OF_THE_ORIGINAL = "Apache-2.0 by the original model's card; the wheels state none";

    static final List<ShortName> ALL = List.of(
            new ShortName("smollm2", WheelModel.SMOLLM2_135M, "SmolLM2 135M Instruct, Q4_1", "Apache-2.0"),
            new ShortName(
                    "qwen2.5-coder:0.5b",
                    WheelModel.QWEN25_CODER_05B,
                    "Qwen2.5 Coder 0.5B Instruct, Q4_K_M",
                    OF_THE_ORIGINAL),
            new ShortName(
                    "qwen2.5-coder:1.5b",
                    WheelModel.QWEN25_CODER_15B,
                    "Qwen2.5 Coder 1.5B Instruct, Q4_K_M",
                    OF_THE_ORIGINAL),
            new ShortName(
                    "gemma3:270m", WheelModel.GEMMA3_270M, "Gemma 3 270M (base model), Q4_K_M", "Gemma Terms of Use"));

    static Optional<ShortName> find(String name) {
        return ALL.stream().filter(known -> known.name().equals(name)).findFirst();
    }

    /** The short name that is most like the text; empty if none is alike. */
    static Optional<String> nearest(String text) {
        String last = text.substring(text.lastIndexOf('/') + 1).toLowerCase(java.util.Locale.ROOT);
        return ALL.stream()
                .map(ShortName::name)
                .filter(name -> EditDistance.of(last, name) <= Math.max(2, name.length() / 3)
                        || name.contains(":") && last.startsWith(name.substring(0, name.indexOf(':')))
                        || last.startsWith(name))
                .min(Comparator.comparingInt(name -> EditDistance.of(last, name)));
    }

    /** The list for an error's remedy. */
    static String names() {
        return String.join(", ", ALL.stream().map(ShortName::name).toList());
    }
}
