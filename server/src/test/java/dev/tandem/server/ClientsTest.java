package dev.tandem.server;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeFalse;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.UnaryOperator;
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
    static final String TEMPLATE = "{% for m in messages %}{{ m.role }}:{{ m.content }}\n{% endfor %}"
            + "{% for t in tools or [] %}{{ t.function.name }} {% endfor %}{# <tool_call> </think> #}";

    /** It calls the weather once, and then answers with its result. */
    static String answer(String prompt) {
        if (prompt.contains("tool:21 degrees")) {
            return "It is 21 degrees.";
        }
        if (prompt.contains("Say hello")) {
            return "Hello.";
        }
        if (prompt.contains("json_tool_call")) { // so LiteLLM asks for JSON over Anthropic's API
            return "<tool_call>\n{\"name\": \"json_tool_call\", \"arguments\": {\"city\": \"Bern\", \"degrees\": 21}}\n"
                    + "</tool_call>";
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

    /** Answers the questions of LangChain4j's TCK. */
    static String tck(String prompt) {
        Map<String, String> answers = new LinkedHashMap<>(); // the first whose key the prompt has
        answers.put("tool:14:35", "It is sunny in Munich, and 14:35 in France.");
        answers.put("tool:10:14", "It is 10:14.");
        answers.put("tool:sunny", "{\"weather\": \"sunny\"}"); // as text, and as JSON of a schema
        answers.put(
                "time in France", call("getWeather", "city", "Munich") + "\n" + call("getTime", "country", "France"));
        answers.put("Munich", call("getWeather", "city", "Munich"));
        answers.put(
                "get_current_time", "<tool_call>\n{\"name\": \"get_current_time\", \"arguments\": {}}\n</tool_call>");
        answers.put("capital of Germany", "{\"city\": \"Berlin\"}"); // likewise
        answers.put("Translate", "Ich liebe dich.");
        answers.put("favorite color", "It is green.");
        answers.put("Hello World", "Hello World");
        return answers.entrySet().stream()
                .filter(entry -> prompt.contains(entry.getKey()))
                .map(Map.Entry::getValue)
                .findFirst()
                .orElse("Once upon a time, in a land far away, there lived many animals.");
    }

    private static String call(String name, String argument, String value) {
        return "<tool_call>\n{\"name\": \"" + name + "\", \"arguments\": {\"" + argument + "\":\"" + value
                + "\"}}\n</tool_call>";
    }

    private static void run(String... command) throws IOException, InterruptedException {
        run(ClientsTest::answer, command);
    }

    private static void run(UnaryOperator<String> script, String... command) throws IOException, InterruptedException {
        try (ScriptedServer server = new ScriptedServer(TEMPLATE, script)) {
            String url = "http://127.0.0.1:" + server.port();
            List<String> whole = Stream.concat(Stream.of(command), Stream.of(url, "scripted"))
                    .toList();
            Process process =
                    new ProcessBuilder(whole).redirectErrorStream(true).start();
            String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            System.out.println(output); // the cases, for docs/results/clients.jsonl
            assertThat(process.waitFor()).as(output).isZero();
            assertThat(output).endsWith("all fine\n");
        }
    }

    @Test
    void clientsForPython() throws IOException, InterruptedException {
        run(property("tandem.clients.python"), "src/test/clients/clients.py");
    }

    @Test
    void whatTheDescriptionAllowsAndForbids() throws IOException, InterruptedException {
        run(property("tandem.clients.schemathesis"), "src/test/clients/described.py");
    }

    @Test
    void clientsForJavaScript() throws IOException, InterruptedException {
        run("node", property("tandem.clients.node") + "/clients.mjs");
    }

    @Test
    void clientsForJava() throws IOException, InterruptedException {
        run(ClientsTest::answer, java(property("tandem.clients.java"), "src/test/clients/Clients.java"));
    }

    @Test
    void springAi() throws IOException, InterruptedException {
        run(ClientsTest::answer, java(property("tandem.clients.spring"), "src/test/clients/spring-ai/SpringAi.java"));
    }

    @Test
    void theTckOfLangChain4j() throws IOException, InterruptedException {
        run(ClientsTest::tck, java(property("tandem.clients.tck"), "src/test/clients/tck/Tck.java"));
    }

    private static String[] java(String jars, String program) {
        String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
        return new String[] {java, "-cp", jars + "/*", program};
    }
}
