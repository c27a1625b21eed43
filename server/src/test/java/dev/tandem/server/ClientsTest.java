package dev.tandem.server;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeFalse;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/**
 * Official and common clients, unmodified, with a model that answers by a script.
 *
 * <p>They come from the network, so the tests are excluded by default, and run only where a property says where the
 * clients are; docs/reference/http-api.md shows how.
 */
@Tag("clients")
@Timeout(value = 5, unit = TimeUnit.MINUTES)
class ClientsTest {
    private static final String TEMPLATE = "{% for m in messages %}{{ m.role }}:{{ m.content }}\n{% endfor %}"
            + "{% for t in tools or [] %}{{ t.function.name }} {% endfor %}{# <tool_call> </think> #}";

    /** It calls the weather once, and then answers with its result. */
    static String answer(String prompt) {
        if (prompt.contains("tool:21 degrees")) {
            return "It is 21 degrees.";
        }
        return prompt.contains("as JSON")
                ? "{\"city\": \"Bern\", \"degrees\": 21}"
                : "<think>\nLook it up.\n</think>\n\n<tool_call>\n{\"name\": \"weather\", \"arguments\": "
                        + "{\"city\": \"Bern\"}}\n</tool_call>";
    }

    private static String property(String name) {
        String value = System.getProperty(name, "");
        assumeFalse(value.isEmpty(), "the property " + name + " is not set");
        return value;
    }

    private static void run(String... command) throws IOException, InterruptedException {
        try (ScriptedServer server = new ScriptedServer(TEMPLATE, ClientsTest::answer)) {
            String url = "http://127.0.0.1:" + server.port();
            List<String> whole =
                    Stream.concat(Stream.of(command), Stream.of(url)).toList();
            Process process =
                    new ProcessBuilder(whole).redirectErrorStream(true).start();
            String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            assertThat(process.waitFor()).as(output).isZero();
            assertThat(output).endsWith("all fine\n");
        }
    }

    @Test
    void clientsForPython() throws IOException, InterruptedException {
        run(property("tandem.clients.python"), "src/test/clients/clients.py");
    }

    @Test
    void clientsForJavaScript() throws IOException, InterruptedException {
        run("node", property("tandem.clients.node") + "/clients.mjs");
    }

    @Test
    void clientsForJava() throws IOException, InterruptedException {
        run(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-cp",
                property("tandem.clients.java") + "/*",
                "src/test/clients/Clients.java");
    }
}
