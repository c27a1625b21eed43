package dev.tandem.server.openai;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** Checks that docs/api-fields.md shows the table; {@code -Dtandem.docs.write=true} writes the page. */
class ApiFieldsPageTest {
    private static final Path PAGE = Path.of("../docs/api-fields.md");

    @Test
    void pageShowsTheTable() throws IOException {
        if (Boolean.getBoolean("tandem.docs.write")) {
            Files.writeString(PAGE, page());
        }
        assertThat(Files.readString(PAGE))
                .as("run this test with -Dtandem.docs.write=true")
                .isEqualTo(page());
    }

    private static String page() {
        StringBuilder page = new StringBuilder("""
                # Request fields

                This page is written from the class `ApiFields` by a test; do not edit it.

                - A field that is not listed here, or listed as refused, is answered with 400. The error names it.
                - A field whose value is `null` counts as absent.
                - An ignored field is a hint: the answer is right without it.
                - `GET` endpoints have no fields. Query parameters have no effect.
                - Message objects may have further fields; the model's chat template sees them all.
                """);
        for (ApiFields.Endpoint endpoint : ApiFields.Endpoint.values()) {
            page.append("\n## POST ").append(endpoint.path).append('\n');
            section(page, endpoint, "| field | meaning |", ApiFields.Rule.Honoured.class);
            section(page, endpoint, "| ignored field | why |", ApiFields.Rule.Ignored.class);
            section(page, endpoint, "| refused field | accepted value | what to do |", ApiFields.Rule.Refused.class);
        }
        return page.toString();
    }

    private static void section(
            StringBuilder page, ApiFields.Endpoint endpoint, String heading, Class<? extends ApiFields.Rule> kind) {
        Map<String, ApiFields.Rule> rules = ApiFields.of(endpoint);
        if (rules.values().stream().noneMatch(kind::isInstance)) {
            return;
        }
        page.append('\n').append(heading).append('\n');
        page.append(heading.replaceAll("[^|]+", " --- ")).append('\n');
        rules.forEach((name, rule) -> {
            if (kind.isInstance(rule)) {
                page.append(row(name, rule)).append('\n');
            }
        });
    }

    private static String row(String name, ApiFields.Rule rule) {
        return switch (rule) {
            case ApiFields.Rule.Honoured honoured -> "| `" + name + "` | " + honoured.meaning() + " |";
            case ApiFields.Rule.Ignored ignored -> "| `" + name + "` | " + ignored.reason() + " |";
            case ApiFields.Rule.Refused refused ->
                "| `" + name + "` | " + (refused.neutral().isEmpty() ? "" : "`" + refused.neutral() + "`") + " | "
                        + refused.remedy() + " |";
        };
    }
}
