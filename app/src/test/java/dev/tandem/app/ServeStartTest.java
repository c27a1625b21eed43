package dev.tandem.app;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What {@code serve} prints once it listens. */
@Timeout(value = 2, unit = TimeUnit.MINUTES)
class ServeStartTest {
    private static final String KEY = "it's a $ecret";

    @TempDir
    Path folder;

    @Test
    void thePrintedCurlLineWorksWithAKeyAndDoesNotShowIt() throws IOException, InterruptedException {
        String model = DummyModel.write(folder.resolve("dummy's model")).toString();
        try (TestServer server = new TestServer(model, "--load-format", "dummy", "--device", "cpu", "--api-key", KEY)) {
            assertThat(server.curl).doesNotContain("ecret");
            assertThat(server.summary)
                    .contains(
                            "settings  model " + model + " (command line), load-format dummy (command line), device cpu"
                                    + " (command line), port 0 (command line), api-key not shown (command line)");
            assertThat(server.summary.stream().map(line -> line.split(" ")[0]))
                    .startsWith(
                            "model",
                            "device",
                            "weights",
                            "memory",
                            "tiers",
                            "context",
                            "strategy",
                            "settings",
                            "address");
            assertThat(server.summary.subList(0, 9))
                    .allMatch(line -> line.matches("[a-z]{5,8} +\\S.*")
                            && line.indexOf(' ', line.indexOf("  ")) > 0
                            && line.charAt(9) == ' '
                            && line.charAt(10) != ' ');
            assertAnswered(server.curl);
        }
    }

    /** Base models have none, and a chat request would be refused. */
    @Test
    void thePrintedCurlLineWorksWithoutAChatTemplate() throws IOException, InterruptedException {
        Path model = DummyModel.write(folder.resolve("base"));
        Files.delete(model.resolve("tokenizer_config.json"));
        try (TestServer server = new TestServer(model.toString(), "--load-format", "dummy", "--device", "cpu")) {
            assertAnswered(server.curl);
        }
    }

    private static void assertAnswered(String line) throws IOException, InterruptedException {
        ProcessBuilder shell = new ProcessBuilder("bash", "-c", line + " -s -w '%{http_code}'");
        shell.environment().put("TANDEM_API_KEY", KEY);
        Process curl = shell.start();
        String answer = new String(curl.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertThat(curl.waitFor()).as(answer).isZero();
        assertThat(answer).contains("choices").endsWith("200");
    }

    @ParameterizedTest
    @ValueSource(strings = {"0.0.0.0", "::", "192.0.2.7"})
    void aPortThatOthersReachWithoutAKeyIsWarnedOf(String host) {
        assertThat(ServeCommand.warningOfOpenPort(host, false))
                .hasValueSatisfying(warning ->
                        assertThat(warning).contains("--host " + host).contains("--api-key"));
        assertThat(ServeCommand.warningOfOpenPort(host, true)).isEmpty();
    }

    @ParameterizedTest
    @ValueSource(strings = {"127.0.0.1", "localhost", "::1", "127.8.8.8"})
    void loopbackNeedsNoWarning(String host) {
        assertThat(ServeCommand.warningOfOpenPort(host, false)).isEmpty();
    }
}
