package dev.tandem.app;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.ByteArrayInputStream;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** {@code chat} with a server of its own, and with a running one. */
@Timeout(value = 2, unit = TimeUnit.MINUTES)
class ChatCommandTest {
    private static final String WORDS = "(w\\d+ ?){1,4}\n";

    @TempDir
    Path folder;

    private static CommandRun chat(String lines, String... args) {
        InputStream before = System.in;
        System.setIn(new ByteArrayInputStream(lines.getBytes(StandardCharsets.UTF_8)));
        try {
            return CommandRun.of(args);
        } finally {
            System.setIn(before);
        }
    }

    @Test
    void linesOfAPipeAreAnsweredByAModelThatIsLoadedHere() {
        String model = DummyModel.write(folder.resolve("dummy")).toString();
        CommandRun run = chat(
                "/set max_tokens 4\n/set ignore_eos true\nw5 w6\nw7\n",
                "chat",
                model,
                "--load-format",
                "dummy",
                "--device",
                "cpu",
                "--system",
                "w9");
        assertThat(run.status()).as(run.errors()).isEqualTo(ExitCode.OK);
        assertThat(run.out()).matches("max_tokens 4\nmax_tokens 4\nignore_eos true\n" + WORDS + WORDS);
    }

    @Test
    void aRunningServerIsAskedWithItsKey() throws Exception {
        try (LocalServer server = new LocalServer("--api-key", "secret")) {
            CommandRun run = chat(
                    "/set max_tokens 3\nHi\n", "chat", "--base-url", server.address + "/v1/", "--api-key", "secret");
            assertThat(run.status()).as(run.errors()).isEqualTo(ExitCode.OK);
            assertThat(run.out().lines()).hasSizeGreaterThanOrEqualTo(2);
            CommandRun refused = chat("Hi\n", "chat", "--base-url", server.address, "--api-key", "wrong");
            assertThat(refused.status()).isEqualTo(ExitCode.CANNOT_START);
            assertThat(refused.errors()).contains("--api-key").doesNotContain("wrong");
            CommandRun field =
                    chat("/set temperature hot\nHi\n", "chat", "--base-url", server.address, "--api-key", "secret");
            assertThat(field.status()).isEqualTo(ExitCode.FAILED);
            assertThat(field.errors()).contains("temperature");
        }
    }

    @Test
    void aServerThatIsNotThereIsNamed() {
        CommandRun run = chat("", "chat", "--base-url", "http://127.0.0.1:1");
        assertThat(run.status()).isEqualTo(ExitCode.CANNOT_START);
        assertThat(run.errors()).contains("http://127.0.0.1:1", "tandem serve");
    }
}
