package dev.tandem.server;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.server.http.AccessLog;
import dev.tandem.server.openai.ApiKeys;
import java.io.IOException;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import java.util.logging.SimpleFormatter;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** API keys, right and wrong, in no line of any logger at any level. */
@Timeout(value = 1, unit = TimeUnit.MINUTES)
class KeysInLogsTest {
    private static final String RIGHT = "key-that-opens";
    private static final String WRONG = "key-that-does-not";

    private final List<String> lines = new CopyOnWriteArrayList<>();
    private final Logger root = Logger.getLogger("");
    private final Level before = root.getLevel();
    private final Handler handler = new Handler() {
        private final SimpleFormatter formatter = new SimpleFormatter();

        @Override
        public void publish(LogRecord record) {
            lines.add(formatter.format(record)); // with parameters and the stack trace
        }

        @Override
        public void flush() {}

        @Override
        public void close() {}
    };

    @BeforeEach
    void captureEverything() {
        handler.setLevel(Level.ALL);
        root.addHandler(handler);
        root.setLevel(Level.ALL);
    }

    @AfterEach
    void restore() {
        root.setLevel(before);
        root.removeHandler(handler);
    }

    @Test
    void noLoggerWritesAKey() throws IOException {
        try (RunningServer server = new RunningServer(
                RunningServer.LIMITS,
                RunningServer.ORIGINS,
                Optional.empty(),
                ApiKeys.of(List.of(RIGHT)),
                AccessLog.to(() -> 0, lines::add))) {
            for (String header : List.of("Authorization: Bearer ", "Authorization: Basic ", "x-api-key: ")) {
                ask(server, header + WRONG, 401);
                ask(server, header + RIGHT, header.contains("Basic") ? 401 : 200);
            }
            for (String key : List.of(RIGHT, WRONG)) {
                ask(server, "Authorization : Bearer " + key, 400);
                ask(server, "Bearer " + key, 400);
                ask(server, "Authorization: Bearer " + key + "\u0001", 400);
            }
        }
        assertThat(lines).anyMatch(line -> line.contains("/v1/completions 200"));
        System.getLogger("dev.tandem.server.http").log(System.Logger.Level.DEBUG, "{0} is captured", "debug");
        assertThat(lines).anyMatch(line -> line.contains("debug is captured"));
        assertThat(lines).noneMatch(line -> line.contains(RIGHT) || line.contains(WRONG));
    }

    private static void ask(RunningServer server, String header, int status) throws IOException {
        try (RawClient client = server.connect()) {
            client.post("/v1/completions", "{\"prompt\": \"a\", \"max_tokens\": 1}", header);
            assertThat(client.read().status()).as(header).isEqualTo(status);
        }
    }
}
