package dev.tandem.fetch.hub;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.fetch.FetchException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Which files of a repository a model needs. */
class ModelFilesTest {
    @TempDir
    Path snapshot;

    private static HubListing listing(String model, String... files) {
        return new HubListing(
                HubModel.parse(model).orElseThrow(),
                "0".repeat(40),
                Stream.of(files)
                        .map(file -> new HubFile(file, 2_500_000_000L, "0".repeat(64), true))
                        .toList());
    }

    private static String gguf(String model, String... files) {
        List<String> chosen = parts(model, files);
        assertThat(chosen).hasSize(1);
        return chosen.getFirst();
    }

    private static List<String> parts(String model, String... files) {
        return ModelFiles.choose(listing(model, files)).gguf().stream()
                .map(HubFile::path)
                .toList();
    }

    @Test
    void safetensorsComeWithWhatDescribesThem() throws IOException {
        ModelFiles files = ModelFiles.choose(listing(
                "o/m",
                "README.md",
                "config.json",
                "tokenizer.json",
                "chat_template.jinja",
                "model.safetensors.index.json",
                "model-00001-of-00002.safetensors",
                "model-00002-of-00002.safetensors",
                "consolidated.safetensors",
                "original/model.safetensors",
                "pytorch_model.bin",
                "m-Q8_0.gguf"));
        assertThat(files.description())
                .extracting(HubFile::path)
                .containsExactly(
                        "config.json", "tokenizer.json", "chat_template.jinja", "model.safetensors.index.json");
        Files.writeString(
                snapshot.resolve("model.safetensors.index.json"),
                "{\"weight_map\": {\"a\": \"model-00002-of-00002.safetensors\","
                        + " \"b\": \"model-00001-of-00002.safetensors\","
                        + " \"c\": \"model-00002-of-00002.safetensors\"}}");
        assertThat(files.weights(snapshot))
                .extracting(HubFile::path)
                .containsExactly("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors");
        assertThat(files.model(snapshot)).isEqualTo(snapshot);
        Files.writeString(snapshot.resolve("model.safetensors.index.json"), "{\"weight_map\": {\"a\": \"../x\"}}");
        assertThatThrownBy(() -> files.weights(snapshot))
                .isInstanceOf(FetchException.class)
                .hasMessageContaining("has no ../x");
    }

    @Test
    void aTagNamesAQuantisation() {
        String[] files = {
            "m.IQ4_NL.gguf", "m-Q4_K_M.gguf", "BF16/m.gguf", "m-UD-Q4_K_XL.gguf", "mmproj-F16.gguf", "q4/m-q8_0.gguf"
        };
        assertThat(gguf("o/m", files)).isEqualTo("m-Q4_K_M.gguf");
        assertThat(gguf("o/m:q4_k_m", files)).isEqualTo("m-Q4_K_M.gguf");
        assertThat(gguf("o/m:IQ4_NL", files)).isEqualTo("m.IQ4_NL.gguf");
        assertThat(gguf("o/m:BF16", files)).isEqualTo("BF16/m.gguf");
        assertThat(gguf("o/m:UD-Q4_K_XL", files)).isEqualTo("m-UD-Q4_K_XL.gguf");
        assertThat(gguf("o/m:Q8_0", files)).isEqualTo("q4/m-q8_0.gguf");
        assertThat(gguf("o/m", "m.gguf")).isEqualTo("m.gguf");
        assertThat(gguf("o/m:Q8_0", "config.json", "tokenizer.json", "model.safetensors", "m-Q8_0.gguf"))
                .isEqualTo("m-Q8_0.gguf");
    }

    private static void assertRefused(HubListing listing, String... said) {
        assertThatThrownBy(() -> ModelFiles.choose(listing))
                .isInstanceOf(FetchException.class)
                .satisfies(error -> assertThat(error.getMessage()).contains(said));
    }

    @Test
    void refusalsNameWhatThereIs() {
        assertRefused(
                listing("o/m", "config.json", "pytorch_model.bin", "README"),
                "o/m",
                "*.bin",
                "*.json",
                "README",
                "safetensors nor GGUF");
        assertRefused(listing("o/m", "config.json", "model.safetensors"), "tokenizer.json");
        assertRefused(
                listing("o/m:Q5_K_M", "a-Q4_0.gguf", "a-Q6_K.gguf"),
                "no GGUF file Q5_K_M",
                "o/m:Q4_0 (2.5 GB)",
                "o/m:Q6_K (2.5 GB)");
        assertRefused(listing("o/m", "a-Q4_0.gguf", "a-Q6_K.gguf"), "several", "o/m:Q4_0 (2.5 GB)");
    }

    @Test
    void partsOfAGgufFileBelongTogether() {
        String[] files = {
            "Q8_0/m-00002-of-00003.gguf",
            "Q8_0/m-00003-of-00003.gguf",
            "Q8_0/m-00001-of-00003.gguf",
            "m-Q4_0.gguf",
            "m-Q6_K-00001-of-00002.gguf",
            "m-Q6_K-00002-of-00002.gguf"
        };
        List<String> all =
                List.of("Q8_0/m-00001-of-00003.gguf", "Q8_0/m-00002-of-00003.gguf", "Q8_0/m-00003-of-00003.gguf");
        assertThat(parts("o/m", files)).isEqualTo(all);
        assertThat(parts("o/m:q8_0", files)).isEqualTo(all);
        assertThat(parts("o/m:Q6_K", files))
                .containsExactly("m-Q6_K-00001-of-00002.gguf", "m-Q6_K-00002-of-00002.gguf");
        assertThat(parts("o/m", "m-00001-of-00002.gguf", "m-00002-of-00002.gguf"))
                .containsExactly("m-00001-of-00002.gguf", "m-00002-of-00002.gguf");
        assertRefused(listing("o/m:Q5_0", files), "o/m:Q8_0 (7.5 GB)", "o/m:Q4_0 (2.5 GB)", "o/m:Q6_K (5.0 GB)");
        ModelFiles chosen = ModelFiles.choose(listing("o/m:Q8_0", files));
        assertThat(chosen.weights(snapshot)).isEqualTo(chosen.gguf());
        assertThat(chosen.model(snapshot)).isEqualTo(snapshot.resolve("Q8_0/m-00001-of-00003.gguf"));
    }

    @Test
    void aFileWithoutAllItsPartsIsRefusedAndNotComplete() {
        String[] files = {"a-Q4_0.gguf", "a-Q8_0-00001-of-00003.gguf", "a-Q8_0-00003-of-00003.gguf"};
        assertRefused(
                listing("o/m:Q8_0", files),
                "o/m has 2 of 3 parts",
                "lacks a-Q8_0-00002-of-00003.gguf",
                "choose another of o/m:Q4_0",
                "try again later");
        assertThat(ModelFiles.complete(listing("o/m", files), snapshot))
                .extracting(complete -> complete.model().toString())
                .containsExactly("o/m:Q4_0");
    }

    /** A file in one part keeps the quantisation's name when another one in parts has the same. */
    @Test
    void twoFilesOfAQuantisationHaveNamesOfTheirOwn() {
        String[] files = {"a-Q8_0.gguf", "b-Q8_0-00001-of-00002.gguf", "b-Q8_0-00002-of-00002.gguf"};
        assertThat(parts("o/m:Q8_0", files)).containsExactly("a-Q8_0.gguf");
        assertThat(parts("o/m:b-q8_0", files)).hasSize(2);
    }
}
