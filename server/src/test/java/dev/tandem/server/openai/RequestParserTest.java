package dev.tandem.server.openai;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.engine.request.RequestException;
import dev.tandem.server.FakeTokenizer;
import java.io.ByteArrayInputStream;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

class RequestParserTest {
    @Test
    void aHandlerCannotReadFieldsThatTheTableDoesNotHonour() {
        RequestParser parser = new RequestParser(new PromptReader(new FakeTokenizer(), 100));
        RequestFields fields = parser.parse(new ByteArrayInputStream(new byte[] {'{', '}'}), ApiFields.Endpoint.CHAT);
        assertThatThrownBy(() -> fields.field("user")).hasMessageContaining("reads the field user");
        assertThatThrownBy(() -> fields.field("no_such")).hasMessageContaining("reads the field no_such");
    }

    @Test
    void aStringLongerThanAnyPromptIsRefusedWhileParsing() {
        RequestParser parser = new RequestParser(new PromptReader(new FakeTokenizer(), 100));
        byte[] body = ("{\"prompt\": \"" + "x".repeat(3 << 20) + "\"}").getBytes(StandardCharsets.UTF_8);
        AtomicInteger read = new AtomicInteger();
        InputStream counted = new ByteArrayInputStream(body) {
            @Override
            public synchronized int read(byte[] buffer, int from, int length) {
                int count = super.read(buffer, from, length);
                read.addAndGet(count);
                return count;
            }
        };
        assertThatThrownBy(() -> parser.parse(counted, ApiFields.Endpoint.COMPLETIONS))
                .isInstanceOf(RequestException.class)
                .hasMessageContaining("maximum context length is 100 tokens");
        assertThat(read.get()).isLessThan(2 << 20);
    }
}
