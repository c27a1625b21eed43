package dev.tandem.model.config;

import java.util.Arrays;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** The families of models that can be read. */
public enum Family {
    LLAMA("Llama 2, 3, 3.1, 3.2", "llama", "llama", ""),
    MISTRAL("Mistral", "mistral", "llama", "a window in every layer, if any"),
    QWEN2("Qwen2, Qwen2.5", "qwen2", "qwen2", "biases of q, k and v"),
    QWEN3("Qwen3, dense", "qwen3", "qwen3", "norms of q and k heads"),
    PHI3("Phi-3, Phi-4", "phi3", "phi3", "fused matrices, partial rotation, LongRoPE"),
    OLMO2("OLMo 2", "olmo2", "olmo2", "norms on outputs, norms over all heads of q and k"),
    OLMO3("OLMo 3", "olmo3", "olmo2", "as OLMo 2; windows in three of four layers, YaRN in the others"),
    GEMMA3(
            "Gemma 3, text",
            "gemma3_text",
            "gemma3",
            "windows and a rotation of their own in five of six layers, four norms, GeGLU"),
    SMOLLM3("SmolLM3", "smollm3", "smollm3", "every fourth layer does not rotate");

    private final String title;
    private final String modelType;
    private final String architecture;
    private final String difference;

    Family(String title, String modelType, String architecture, String difference) {
        this.title = title;
        this.modelType = modelType;
        this.architecture = architecture;
        this.difference = difference;
    }

    /** The models, as people call them. */
    public String title() {
        return title;
    }

    /** The value of {@code model_type} in {@code config.json}. */
    public String modelType() {
        return modelType;
    }

    /** The value of {@code general.architecture} in GGUF files. */
    public String architecture() {
        return architecture;
    }

    /** What such models compute otherwise than Llama; empty for nothing. */
    public String difference() {
        return difference;
    }

    /** The value of {@code model_type} of models that also take images, whose text part is of this family. */
    public Optional<String> withImages() {
        return this == GEMMA3 ? Optional.of("gemma3") : Optional.empty();
    }

    /** The family of the text part of models of a type, if they also take images. */
    static Optional<Family> ofTextPart(String modelType) {
        return Arrays.stream(values())
                .filter(family -> family.withImages().equals(Optional.of(modelType)))
                .findFirst();
    }

    /** The supported values of {@code model_type}, sorted. */
    public static Set<String> modelTypes() {
        return Arrays.stream(values())
                .flatMap(family -> Stream.concat(Stream.of(family.modelType), family.withImages().stream()))
                .collect(Collectors.toCollection(TreeSet::new));
    }

    /** The supported values of {@code general.architecture}, sorted. */
    public static Set<String> architectures() {
        return Arrays.stream(values()).map(Family::architecture).collect(Collectors.toCollection(TreeSet::new));
    }
}
