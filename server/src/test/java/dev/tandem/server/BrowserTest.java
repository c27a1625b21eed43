package dev.tandem.server;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeFalse;

import dev.tandem.server.openai.ApiKeys;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/**
 * The page in a real browser, with a model that answers by a script.
 *
 * <p>Browser and packages come from the network, so the test is excluded by default; docs/guide/page.md shows how to
 * run it.
 */
@Tag("browser")
@Timeout(value = 5, unit = TimeUnit.MINUTES)
class BrowserTest {
    private static final String TEMPLATE = "{% for m in messages %}{{ m.role }}:{{ m.content }}\n{% endfor %}"
            + "{% for t in tools or [] %}{{ t.function.name }} {% endfor %}{# <tool_call> </think> #}";
    private static final long STEP_NANOS = 2_000_000;

    private static final String CALL = """
            <think>
            Look it up.
            </think>

            <tool_call>
            {"name": "weather", "arguments": {"city": "Bern"}}
            </tool_call>""";
    private static final String INJECTION = """
            <img src=x onerror="window.injected=1"> <script>window.injected=1</script>

            [link](javascript:window.injected=1) `<b>code</b>`

            ```html
            <script>window.injected=1</script>
            ```

            | a | b |
            |---|---|
            | <svg onload=window.injected=1> | 2 |
            """;
    private static final String GREETING = """
            <think>
            The user greets.
            </think>

            Hello! Here is **Java**:

            ```java
            void main() {
                IO.println("hi");
            }
            ```

            1. first
            2. second
               - inner

            | tier | memory |
            |---|---|
            | GPU | 80 GB |
            | host | 1 TB |
            """;

    /** Each answer shows something that the page must render, or must not run. */
    static String answer(String prompt) {
        String last = prompt.strip().lines().reduce("", (before, line) -> line.isBlank() ? before : line);
        if (prompt.contains("tool:21 degrees")) {
            return "It is **21 degrees**.";
        }
        if (last.contains("weather")) {
            return CALL;
        }
        if (last.contains("inject")) {
            return INJECTION;
        }
        return last.contains("long") ? "A long answer has many words. ".repeat(100) : GREETING;
    }

    private static String url(ScriptedServer server) {
        return "http://127.0.0.1:" + server.port();
    }

    @Test
    void thePageWorks() throws IOException, InterruptedException {
        String browser = System.getProperty("tandem.browser", "");
        assumeFalse(browser.isEmpty(), "the property tandem.browser is not set");
        try (ScriptedServer server = new ScriptedServer(TEMPLATE, BrowserTest::answer);
                ScriptedServer withKey =
                        new ScriptedServer(TEMPLATE, BrowserTest::answer, ApiKeys.of(List.of("the key")))) {
            server.beforeStep(() -> LockSupport.parkNanos(STEP_NANOS));
            List<String> command =
                    new ArrayList<>(List.of("node", "src/test/page/page.mjs", url(server), url(withKey), browser));
            Optional.ofNullable(System.getProperty("tandem.pictures")).ifPresent(command::add);
            Process process =
                    new ProcessBuilder(command).redirectErrorStream(true).start();
            String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            System.out.println(output);
            assertThat(process.waitFor()).as(output).isZero();
            assertThat(output).endsWith("all fine\n");
        }
    }
}
