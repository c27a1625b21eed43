package dev.tandem.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.cuda.kernels.ModelShape;
import dev.tandem.model.Checkpoint;
import dev.tandem.model.Checkpoint.LoadFormat;
import dev.tandem.model.config.Family;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import java.util.TreeSet;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/**
 * Checks that the page of models shows the families and what they were compared with; {@code -Dtandem.docs.write=true}
 * writes it.
 */
class ModelsPageTest {
    private static final Path PAGE = Path.of("../docs/reference/models.md");

    @Test
    void pageShowsTheFamilies() throws IOException {
        String page = page();
        if (Boolean.getBoolean("tandem.docs.write")) {
            Files.writeString(PAGE, page);
        }
        assertThat(Files.readString(PAGE))
                .as("run this test with -Dtandem.docs.write=true")
                .isEqualTo(page);
    }

    private static String page() throws IOException {
        StringBuilder page = new StringBuilder("""
                # Models

                This page is written from the class `Family` and the reference models by a test; do not edit it.

                | family | `model_type` | GGUF architecture | not as Llama | CPU | GPU | equals transformers |
                | --- | --- | --- | --- | --- | --- | --- |
                """);
        for (Family family : Family.values()) {
            List<Path> goldens = goldens(family);
            page.append("| ")
                    .append(String.join(
                            " | ",
                            family.title(),
                            Stream.concat(Stream.of(family.modelType()), family.withImages().stream())
                                    .map(type -> "`" + type + "`")
                                    .collect(Collectors.joining(", ")),
                            "`" + family.architecture() + "`",
                            family.difference(),
                            "yes",
                            gpu(goldens),
                            containers(goldens)))
                    .append(" |\n");
        }
        return page.append("""

                The comparison is of logits and 64 greedy tokens of small random models in fp32 on the CPU.
                GGUF files of Llama are compared by the default model, SmolLM2.
                Safetensors may be fp32, fp16 or bf16.
                GGUF files may be F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K or Q6_K, also split ones.
                Models with LongRoPE take the short factors.
                Where `--max-model-len` exceeds the original context, they take the long ones.
                Of models that also take images (`gemma3`), the text part is served.
                A model that asks for another computation is refused by name before its weights are loaded.
                """).toString();
    }

    private static List<Path> goldens(Family family) throws IOException {
        try (Stream<Path> folders = Files.list(CudaModelTest.FAMILIES)) {
            return folders.filter(folder -> Files.exists(folder.resolve("golden.json")))
                    .filter(folder -> modelType(folder).equals(family.modelType()))
                    .sorted()
                    .toList();
        }
    }

    private static String modelType(Path folder) {
        try (Checkpoint checkpoint = Checkpoint.open(folder, LoadFormat.DUMMY, 0)) {
            return checkpoint.spec().family();
        }
    }

    private static String gpu(List<Path> goldens) {
        TreeSet<String> lacking = new TreeSet<>();
        goldens.forEach(folder -> lacking(folder).ifPresent(lacking::add));
        long without =
                goldens.stream().filter(folder -> lacking(folder).isEmpty()).count();
        return lacking.isEmpty() ? "yes" : without == 0 ? "no" : "without " + String.join(", ", lacking);
    }

    private static Optional<String> lacking(Path folder) {
        try (Checkpoint checkpoint = Checkpoint.open(folder, LoadFormat.DUMMY, 0)) {
            return ModelShape.lacking(checkpoint.spec());
        }
    }

    private static String containers(List<Path> goldens) {
        boolean gguf = goldens.stream().anyMatch(folder -> Files.exists(folder.resolve("model.gguf")));
        return gguf ? "safetensors, GGUF" : "safetensors";
    }
}
