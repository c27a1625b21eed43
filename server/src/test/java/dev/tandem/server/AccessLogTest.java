package dev.tandem.server;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.server.http.AccessLog;
import java.util.Optional;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The lines that {@code --log-requests} writes for answers of the real server. */
@Timeout(value = 2, unit = TimeUnit.MINUTES)
class AccessLogTest {
    private final BlockingQueue<String> lines = new LinkedBlockingQueue<>();

    @Test
    void linesCountTokensWithAndWithoutStreamingAndDoNotShowThePrompt() throws Exception {
        AccessLog log = AccessLog.to(() -> 0, lines::add);
        try (RunningServer server =
                        new RunningServer(RunningServer.LIMITS, RunningServer.ORIGINS, Optional.empty(), log);
                RawClient client = server.connect()) {
            for (boolean stream : new boolean[] {false, true}) {
                client.post(
                        "/v1/completions",
                        "{\"prompt\": \"ab\", \"max_tokens\": 3, \"ignore_eos\": true, \"stream\": " + stream + "}",
                        "X-Request-Id: mine-" + stream);
                assertThat(client.read().status()).isEqualTo(200);
                assertThat(lines.take())
                        .matches(
                                "POST /v1/completions 200 0ms prompt_tokens=\\d+ output_tokens=3 client=127\\.0\\.0\\.1"
                                        + " id=mine-" + stream);
            }
            client.post("/v1/completions", "{\"prompt\": 1.5}");
            assertThat(client.read().status()).isEqualTo(400);
            assertThat(lines.take()).startsWith("POST /v1/completions 400 0ms prompt_tokens=0 output_tokens=0");
        }
    }
}
