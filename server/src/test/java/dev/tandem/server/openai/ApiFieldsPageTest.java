package dev.tandem.server.openai;

import static dev.tandem.server.openai.ApiFields.Endpoint.CHAT;
import static dev.tandem.server.openai.ApiFields.Endpoint.COMPLETIONS;
import static dev.tandem.server.openai.ApiFields.Endpoint.COUNT_TOKENS;
import static dev.tandem.server.openai.ApiFields.Endpoint.DETOKENIZE;
import static dev.tandem.server.openai.ApiFields.Endpoint.MESSAGES;
import static dev.tandem.server.openai.ApiFields.Endpoint.RESPONSES;
import static dev.tandem.server.openai.ApiFields.Endpoint.TOKENIZE;
import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** Checks that the pages of request fields show the tables; {@code -Dtandem.docs.write=true} writes them. */
class ApiFieldsPageTest {
    private static final Path DOCS = Path.of("../docs");

    @Test
    void pageShowsTheTablesOfChatCompletionsAndTokens() throws IOException {
        check("api-fields.md", "Request fields", List.of(CHAT, COMPLETIONS, TOKENIZE, DETOKENIZE), """
                - A field that is not listed here, or listed as refused, is answered with 400. The error names it.
                - A field whose value is `null` counts as absent.
                - An ignored field is a hint: the answer is right without it.
                - `GET` endpoints have no fields. Query parameters have no effect.
                - Message objects may have further fields; the model's chat template sees them all.
                """);
    }

    @Test
    void pageShowsTheTablesOfMessagesAndResponses() throws IOException {
        check(
                "message-fields.md",
                "Request fields of Messages and Responses",
                List.of(MESSAGES, COUNT_TOKENS, RESPONSES),
                """
                The rules of [request fields](api-fields.md) apply here too.
                """);
    }

    @Test
    void everyEndpointIsOnAPage() {
        assertThat(List.of(CHAT, COMPLETIONS, TOKENIZE, DETOKENIZE, MESSAGES, COUNT_TOKENS, RESPONSES))
                .containsExactlyInAnyOrder(ApiFields.Endpoint.values());
    }

    private static void check(String name, String title, List<ApiFields.Endpoint> endpoints, String rules)
            throws IOException {
        String page = page(title, endpoints, rules);
        if (Boolean.getBoolean("tandem.docs.write")) {
            Files.writeString(DOCS.resolve(name), page);
        }
        assertThat(Files.readString(DOCS.resolve(name)))
                .as("run this test with -Dtandem.docs.write=true")
                .isEqualTo(page);
    }

    private static String page(String title, List<ApiFields.Endpoint> endpoints, String rules) {
        StringBuilder page = new StringBuilder("# " + title)
                .append("\n\nThis page is written from the class `ApiFields` by a test; do not edit it.\n\n")
                .append(rules);
        for (ApiFields.Endpoint endpoint : endpoints) {
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
