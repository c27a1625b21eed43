package dev.tandem.text;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.text.jinja.JinjaException;
import java.io.RandomAccessFile;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class ChatTemplateTest {
    private static final List<Map<String, String>> MESSAGES = List.of(Map.of("role", "user", "content", "Hi"));

    private final ChatTemplate template = new ChatTemplate(
            "{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}{{ enable_thinking }}", "<s>", "</s>");

    @ParameterizedTest
    @ValueSource(
            strings = {
                "messages",
                "tools",
                "documents",
                "add_generation_prompt",
                "bos_token",
                "eos_token",
                "raise_exception",
                "strftime_now",
                "range",
                "namespace",
                "dict",
                "loop"
            })
    void aRequestCannotSetReservedNames(String name) {
        assertThatThrownBy(() -> template.render(MESSAGES, List.of(), true, Map.of(name, "forged")))
                .isInstanceOf(JinjaException.class)
                .hasMessageContaining("'" + name + "' cannot be set");
    }

    @Test
    void aRequestCanSetOtherNames() {
        assertThat(template.render(MESSAGES, List.of(), true, Map.of("enable_thinking", false)))
                .isEqualTo("<s>HiFalse");
    }

    @Test
    void oversizedFilesAreNotRead(@TempDir Path folder) throws Exception {
        Path file = folder.resolve("tokenizer_config.json");
        try (RandomAccessFile sparse = new RandomAccessFile(file.toFile(), "rw")) {
            sparse.setLength(3L << 30);
        }
        assertThatThrownBy(() -> ChatTemplate.read(folder))
                .isInstanceOf(TokenizerException.class)
                .hasMessageContaining("has 3221225472 bytes; the limit is 16777216");
        Files.delete(file);
        assertThat(ChatTemplate.read(folder)).isEmpty();
    }
}
