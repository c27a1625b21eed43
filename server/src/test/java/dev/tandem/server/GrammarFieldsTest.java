package dev.tandem.server;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.grammar.GrammarSource;
import dev.tandem.grammar.GrammarSource.Syntax;
import java.io.IOException;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** What requests may demand of the answer's form, and what is refused. */
@Timeout(value = 1, unit = TimeUnit.MINUTES)
class GrammarFieldsTest {
    private final RunningServer server = new RunningServer();

    @AfterEach
    void stop() {
        server.close();
        server.grammars.awaitClosed();
    }

    private RawClient.Answer ask(String path, String fields) throws IOException {
        String prompt = path.endsWith("chat/completions")
                ? "\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}]"
                : "\"prompt\": \"hi\"";
        return server.post(path, "{" + prompt + ", \"max_tokens\": 2, " + fields + "}");
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            quoteCharacter = '`',
            value = {
                "\"response_format\": {\"type\": \"json_object\"} | JSON_SCHEMA | {\"type\":\"object\"}",
                "\"response_format\": {\"type\": \"json_schema\", \"json_schema\": {\"name\": \"n\", \"strict\": true, "
                        + "\"schema\": {\"type\": \"array\"}}} | JSON_SCHEMA | {\"type\":\"array\"}",
                "\"response_format\": {\"type\": \"structural_tag\", \"structures\": [{\"begin\": \"<a>\", "
                        + "\"schema\": {}, \"end\": \"</a>\"}], \"triggers\": [\"<a\"]} | LARK | %json {} \"</a>\"",
                "\"structured_outputs\": {\"json\": {\"const\": 1}, \"regex\": null} | JSON_SCHEMA | {\"const\":1}",
                "\"structured_outputs\": {\"json\": \"{\\\"const\\\": 2}\"} | JSON_SCHEMA | {\"const\":2}",
                "\"structured_outputs\": {\"json_object\": true, \"disable_any_whitespace\": true} | JSON_SCHEMA | "
                        + "\"whitespace_flexible\":false",
                "\"structured_outputs\": {\"regex\": \"a+\"} | REGEX | a+",
                "\"structured_outputs\": {\"choice\": [\"a\", \"b\"]} | LARK | start: \"a\" | \"b\"",
                "\"structured_outputs\": {\"grammar\": \"start: \\\"x\\\"\"} | LARK | start: \"x\"",
                "\"guided_json\": {\"const\": 3} | JSON_SCHEMA | {\"const\":3}",
                "\"guided_regex\": \"b+\", \"guided_decoding_backend\": \"guidance\" | REGEX | b+",
                "\"guided_choice\": [\"c\"] | LARK | start: \"c\"",
                "\"guided_grammar\": \"start: \\\"y\\\"\" | LARK | start: \"y\""
            })
    void grammarsAreCompiledForBothEndpoints(String fields, Syntax syntax, String text) throws IOException {
        for (String path : new String[] {"/v1/chat/completions", "/v1/completions"}) {
            assertThat(ask(path, fields).status()).as(fields).isEqualTo(200);
            GrammarSource source = server.grammars.compiled.getLast();
            assertThat(source.syntax()).isEqualTo(syntax);
            assertThat(source.text()).contains(text);
        }
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            quoteCharacter = '`',
            value = {
                "\"response_format\": \"json\" | response_format | it must be an object",
                "\"response_format\": {\"type\": \"xml\"} | response_format | there are text, json_object",
                "\"response_format\": {\"type\": \"json_object\", \"x\": 1} | response_format.x | is not supported",
                "\"response_format\": {\"type\": \"json_schema\"} | response_format.json_schema | an object",
                "\"response_format\": {\"type\": \"json_schema\", \"json_schema\": {\"name\": \"n\"}} | "
                        + "response_format.json_schema.schema | an object",
                "\"response_format\": {\"type\": \"json_schema\", \"json_schema\": {\"strict\": 1, \"schema\": {}}} | "
                        + "response_format.json_schema.strict | true or false",
                "\"response_format\": {\"type\": \"structural_tag\", \"format\": {}} | response_format.format | "
                        + "structures",
                "\"structured_outputs\": {} | structured_outputs | exactly one",
                "\"structured_outputs\": {\"regex\": \"a\", \"choice\": [\"a\"]} | structured_outputs | exactly one",
                "\"structured_outputs\": {\"regex\": \"a\", \"whitespace_pattern\": \" \"} | "
                        + "structured_outputs.whitespace_pattern | is not supported",
                "\"structured_outputs\": {\"json\": \"{\"} | structured_outputs.json | not valid JSON",
                "\"structured_outputs\": {\"choice\": []} | structured_outputs.choice | a list that is not empty",
                "\"guided_choice\": [\"\"] | guided_choice | empty text",
                "\"guided_json\": {\"x-guidance\": {\"lenient\": true}} | guided_json | x-guidance",
                "\"guided_regex\": \"a\", \"guided_choice\": [\"a\"] | guided_choice | one grammar only",
                "\"guided_regex\": \"refused\" | guided_regex | guided_regex is refused: it has the word refused",
                "\"guided_regex\": \"a\", \"ignore_eos\": true | ignore_eos | must match a grammar",
                "\"guided_regex\": \"a\", \"min_tokens\": 1 | min_tokens | must match a grammar"
            })
    void errorsNameTheFieldAndTheReason(String fields, String parameter, String words) throws IOException {
        RawClient.Answer answer = ask("/v1/chat/completions", fields);
        assertThat(answer.status()).as(answer.body()).isEqualTo(400);
        assertThat(answer.parameter()).isEqualTo(parameter);
        assertThat(answer.error()).contains(words);
    }

    @ParameterizedTest
    @ValueSource(strings = {"/v1/chat/completions", "/v1/completions"})
    void grammarsOfSeveralAnswersAndOfRefusedRequestsAreFreed(String path) throws IOException {
        assertThat(ask(path, "\"guided_regex\": \"a\", \"n\": 3").status()).isEqualTo(200);
        assertThat(ask(path, "\"guided_regex\": \"a\", \"max_tokens\": 100000").status())
                .isEqualTo(400);
    }

    @Test
    void serversWithoutACompilerSayWhatIsMissing() throws IOException {
        server.grammars.missing = "it was built without llguidance";
        RawClient.Answer answer = ask("/v1/chat/completions", "\"guided_regex\": \"a\"");
        assertThat(answer.status()).isEqualTo(501);
        assertThat(answer.error()).contains("it was built without llguidance");
    }

    @ParameterizedTest
    @ValueSource(strings = {"/v1/chat/completions", "/v1/completions"})
    void whileTheCompilerIsBeingBuiltClientsAreAskedToTryAgain(String path) throws IOException {
        server.grammars.building = true;
        RawClient.Answer answer = ask(path, "\"guided_regex\": \"a\"");
        assertThat(answer.status()).isEqualTo(503);
        assertThat(answer.headers()).containsEntry("retry-after", "5");
        assertThat(answer.error()).contains("still being built; try again");
        assertThat(ask(path, "\"stop\": \"z\"").status()).isEqualTo(200);

        server.grammars.building = false;
        assertThat(ask(path, "\"guided_regex\": \"a\"").status()).isEqualTo(200);
    }
}
