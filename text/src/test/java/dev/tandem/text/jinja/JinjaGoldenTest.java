package dev.tandem.text.jinja;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.ZoneOffset;
import java.time.ZonedDateTime;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;

/**
 * Renderings equal those of Python's jinja2, on a template in the style of each model family and on one that uses every
 * construct. {@code -Dtandem.templates=DIR} checks another directory with goldens from tools/make_template_goldens.py.
 */
class JinjaGoldenTest {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final ZonedDateTime NOW = ZonedDateTime.of(2026, 1, 2, 3, 4, 5, 0, ZoneOffset.UTC);

    @TestFactory
    Stream<DynamicTest> rendersLikeJinja2() throws IOException {
        Path directory = Path.of(System.getProperty("tandem.templates", "src/test/resources/templates"));
        List<DynamicTest> tests = new ArrayList<>();
        int number = 0;
        for (JsonNode golden : JSON.readTree(Files.readAllBytes(directory.resolve("goldens.json")))) {
            String template = golden.path("template").asString();
            tests.add(DynamicTest.dynamicTest(
                    template + " " + number++, () -> check(directory.resolve(template), golden)));
        }
        assertThat(tests).hasSizeGreaterThan(40);
        return tests.stream();
    }

    @SuppressWarnings("unchecked")
    private static void check(Path file, JsonNode golden) throws IOException {
        String source = Files.readString(file);
        Map<String, Object> variables = JSON.convertValue(golden.get("variables"), Map.class);
        if (golden.has("error")) {
            assertThatThrownBy(() -> new JinjaTemplate(source, () -> NOW).render(variables))
                    .isInstanceOf(JinjaException.class);
        } else {
            assertThat(new JinjaTemplate(source, () -> NOW).render(variables))
                    .isEqualTo(golden.get("output").asString());
        }
    }
}
