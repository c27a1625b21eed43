package dev.tandem.server;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The agent of docs/guide/tools.md, as a program. */
@Timeout(value = 2, unit = TimeUnit.MINUTES)
class AgentTest {
    private static final Path AGENT = Path.of("src/test/clients/Agent.java");

    @Test
    void theAgentCallsTheMethodAndAnswers() throws IOException, InterruptedException {
        try (ScriptedServer server = new ScriptedServer(ClientsTest.TEMPLATE, ClientsTest::answer)) {
            Process process = new ProcessBuilder(
                            Path.of(System.getProperty("java.home"), "bin", "java")
                                    .toString(),
                            "-cp",
                            System.getProperty("java.class.path"),
                            AGENT.toString(),
                            "http://127.0.0.1:" + server.port(),
                            "How warm is it in Bern?")
                    .redirectErrorStream(true)
                    .start();
            String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            assertThat(process.waitFor()).as(output).isZero();
            assertThat(output).isEqualTo("It is 21 degrees.\n");
            List<String> prompts = server.scripted.seen;
            assertThat(prompts).hasSize(2);
            assertThat(prompts.getLast()).contains("tool:21 degrees");
        }
    }

    @Test
    void thePageShowsTheAgent() throws IOException {
        assertThat(Files.readString(Path.of("../docs/guide/tools.md")))
                .contains("```java\n" + Files.readString(AGENT) + "```\n");
    }
}
