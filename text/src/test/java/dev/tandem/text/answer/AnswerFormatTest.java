package dev.tandem.text.answer;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.text.ChatTemplate;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.Objects;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class AnswerFormatTest {
    private static AnswerFormat of(String source) {
        return AnswerFormat.of(new ChatTemplate(source, "", ""));
    }

    @ParameterizedTest
    @CsvSource({
        "qwen2_tools, HERMES, ",
        "qwen3_thinking, , THINK",
        "llama31_tools, LLAMA3_JSON, ",
        "mistral_tools, MISTRAL, ",
        "gptoss, HARMONY, HARMONY",
        "llama3, , ",
        "llama2, , "
    })
    void theTemplateShowsTheFormat(String template, ToolCallFormat calls, ReasoningFormat reasoning)
            throws IOException {
        try (InputStream in = Objects.requireNonNull(
                AnswerFormatTest.class.getResourceAsStream("/templates/" + template + ".jinja"))) {
            AnswerFormat format = of(new String(in.readAllBytes(), StandardCharsets.UTF_8));
            assertThat(format.calls()).isEqualTo(Optional.ofNullable(calls));
            assertThat(format.reasoning()).isEqualTo(Optional.ofNullable(reasoning));
        }
    }

    @Test
    void formatsWithoutAParserAreNotTakenForHermes() {
        assertThat(of("{{ tools }}<tool_call><function=").calls()).isEmpty();
        assertThat(of("{{ tools }}<tool_call><arg_key>").calls()).isEmpty();
        assertThat(of("{{ tools }}<tool_call>").calls()).contains(ToolCallFormat.HERMES);
        assertThat(of("<tool_call>").calls())
                .as("a template that shows no tools")
                .isEmpty();
    }

    @Test
    void otherFamiliesAreFoundByTheirMarkers() {
        AnswerFormat harmony = of("{{ tools }}<|start|>assistant<|channel|>final<|message|>");
        assertThat(harmony.calls()).contains(ToolCallFormat.HARMONY);
        assertThat(harmony.reasoning()).contains(ReasoningFormat.HARMONY);
        AnswerFormat gemma = of("{{ tools }}<|tool_call>call:<|channel>thought");
        assertThat(gemma.calls()).contains(ToolCallFormat.GEMMA);
        assertThat(gemma.reasoning()).contains(ReasoningFormat.GEMMA);
        assertThat(of("{{ tools }}<start_function_call>").calls()).contains(ToolCallFormat.GEMMA);
    }

    @Test
    void markersOfCallsAreNeededOnlyWithTools() {
        AnswerFormat format = of("{{ tools }}[TOOL_CALLS]");
        assertThat(format.markers(true)).contains("[TOOL_CALLS]");
        assertThat(format.markers(false)).isEmpty();
        assertThat(of("<think></think>").markers(false)).contains("<think>", "</think>");
    }
}
