package dev.tandem.app;

import static org.assertj.core.api.Assertions.assertThat;

import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** {@code serve} of a model whose chat template shows tools, and no format of calls. */
@Timeout(value = 2, unit = TimeUnit.MINUTES)
class ToolCallParserTest {
    private static final String REQUEST = """
            {"messages": [{"role": "user", "content": "w3 w4"}], "max_tokens": 1, "tools": [{"type": "function",
            "function": {"name": "time", "parameters": {"type": "object"}}}]}""";

    @TempDir
    Path folder;

    @BeforeEach
    void write() throws Exception {
        Path config = DummyModel.write(folder).resolve("tokenizer_config.json");
        String template = Files.readString(config);
        assertThat(template).contains("{% endfor %}");
        Files.writeString(config, template.replace("{% endfor %}", "{% endfor %}{% if tools %}w5{% endif %}"));
    }

    private HttpResponse<String> ask(String... options) throws Exception {
        String[] arguments = new String[options.length + 5];
        System.arraycopy(
                new String[] {folder.toString(), "--load-format", "dummy", "--device", "cpu"}, 0, arguments, 0, 5);
        System.arraycopy(options, 0, arguments, 5, options.length);
        try (LocalServer server = new LocalServer(arguments)) {
            return server.post("/v1/chat/completions", REQUEST);
        }
    }

    @Test
    void theFormatOfTheCommandLineIsServed() throws Exception {
        HttpResponse<String> refused = ask();
        assertThat(refused.statusCode()).isEqualTo(400);
        assertThat(refused.body()).contains("--tool-call-parser");
        HttpResponse<String> answered = ask("--tool-call-parser", "hermes");
        assertThat(answered.statusCode()).as(answered.body()).isEqualTo(200);
    }
}
