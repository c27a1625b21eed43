package dev.tandem.server;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The text of chats over HTTP: parts of a message's content, and stop strings in answers. */
@Timeout(value = 1, unit = TimeUnit.MINUTES)
class ChatTextTest {
    private static final String TEMPLATE = "{% for m in messages %}{{ m.role }}:{{ m.content }}\n{% endfor %}";

    @Test
    void stopStringsAreInTheAnswerOnlyOnRequest() throws IOException {
        String stop = "\"stop\": [\"STOP\"]";
        String kept = stop + ", \"include_stop_str_in_output\": true";
        try (ScriptedServer server = new ScriptedServer(TEMPLATE, prompt -> "one STOP two")) {
            assertThat(server.choice(stop).at("/message/content").asString()).isEqualTo("one ");
            assertThat(server.choice(kept).at("/message/content").asString()).isEqualTo("one STOP");
            assertThat(streamed(server, stop)).isEqualTo("one ");
            assertThat(streamed(server, kept)).isEqualTo("one STOP");
            RawClient.Answer completion =
                    server.post("/v1/completions", "{\"prompt\": \"hi\", \"max_tokens\": 50, " + kept + "}");
            assertThat(completion.json().at("/choices/0/text").asString()).isEqualTo("one STOP");
        }
    }

    private static String streamed(ScriptedServer server, String fields) throws IOException {
        return server.chunks(fields).stream()
                .map(chunk -> chunk.at("/choices/0/delta/content").asString(""))
                .collect(Collectors.joining());
    }

    @Test
    void textPartsOfAMessageReachTheTemplateAsOneText() throws IOException {
        String message =
                "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"sun\"}, %s]}]}";
        try (ScriptedServer server = new ScriptedServer(TEMPLATE, prompt -> "Yes.")) {
            String text = message.formatted("{\"type\": \"text\", \"text\": \"shine\"}");
            assertThat(server.post("/v1/chat/completions", text).status()).isEqualTo(200);
            assertThat(server.scripted.seen).containsExactly("user:sun\nshine\n");
            String image = message.formatted("{\"type\": \"image_url\", \"image_url\": {\"url\": \"data:,\"}}");
            RawClient.Answer refused = server.post("/v1/chat/completions", image);
            assertThat(refused.status()).isEqualTo(400);
            assertThat(refused.parameter()).isEqualTo("messages");
        }
    }
}
