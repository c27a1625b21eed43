package dev.tandem.app;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Optional;
import org.junit.jupiter.api.Test;

/** The start says which tensors of a model that also takes images are not used. */
class TextPartStartTest {
    private static String said(String family) {
        ByteArrayOutputStream said = new ByteArrayOutputStream();
        ModelOptions options = new ModelOptions();
        options.use("../cpu/src/test/resources/families/" + family);
        options.gpu.device = "cpu";
        options.memory.hostKv = Optional.of(new ByteSize(1 << 20));
        EngineAssembly.backend(options, new StartLog(new PrintStream(said, true, StandardCharsets.UTF_8), false))
                .executor()
                .close();
        return said.toString(StandardCharsets.UTF_8);
    }

    @Test
    void namesTheTensorsThatAreNotUsed() {
        assertThat(said("gemma3vision"))
                .contains("note: 34 tensors are not used, those of multi_modal_projector and vision_tower: of a model"
                        + " that also takes images, the text part is served. Requests with images are refused.");
    }

    @Test
    void saysNothingOfAModelOfText() {
        assertThat(said("gemma3")).doesNotContain("not used");
    }
}
