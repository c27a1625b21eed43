package dev.tandem.server;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import tools.jackson.databind.ObjectMapper;

/** Requests against the real server with honoured, ignored, refused, unknown and hostile fields. */
@Timeout(value = 1, unit = TimeUnit.MINUTES)
class ApiFieldsTest {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String CHAT = "/v1/chat/completions";
    private static final String COMPLETIONS = "/v1/completions";
    private static RunningServer server;

    @BeforeAll
    static void start() {
        server = new RunningServer();
    }

    @AfterAll
    static void stop() {
        server.close();
    }

    /** Sends a valid request with these fields added. */
    private static RawClient.Answer ask(String path, String fields) throws IOException {
        String more = fields.isEmpty() ? "" : ", " + fields;
        return server.post(
                path,
                path.equals(CHAT)
                        ? "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}], \"max_tokens\": 2, "
                                + "\"ignore_eos\": true" + more + "}"
                        : "{\"prompt\": \"hi\", \"max_tokens\": 2, \"ignore_eos\": true" + more + "}");
    }

    private static void assertRefused(RawClient.Answer answer, String parameter, String... words) {
        assertThat(answer.status()).as(answer.body()).isEqualTo(400);
        assertThat(answer.parameter()).isEqualTo(parameter);
        assertThat(answer.error()).contains(words);
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "\"use_beam_search\": true",
                "\"length_penalty\": 0.5",
                "\"logits_processors\": [\"a\"]",
                "\"request_id\": \"a\"",
                "\"return_token_ids\": true"
            })
    void bothEndpointsRefuseUnsupportedFields(String field) throws IOException {
        String name = field.split("\"")[1];
        assertRefused(ask(CHAT, field), name, name + " is not supported: ");
        assertRefused(ask(COMPLETIONS, field), name, name + " is not supported: ");
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "\"functions\": [{\"name\": \"f\"}]",
                "\"function_call\": \"auto\"",
                "\"chat_template\": \"x\"",
                "\"documents\": [{\"text\": \"x\"}]",
                "\"modalities\": [\"audio\"]",
                "\"audio\": {\"voice\": \"a\"}",
                "\"web_search_options\": {}",
                "\"echo\": true"
            })
    void chatRefusesUnsupportedFields(String field) throws IOException {
        String name = field.split("\"")[1];
        assertRefused(ask(CHAT, field), name, name + " is not supported: ");
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "\"user\": \"u\"",
                "\"metadata\": {\"a\": \"b\"}",
                "\"store\": true",
                "\"service_tier\": \"auto\"",
                "\"parallel_tool_calls\": true",
                "\"prompt_cache_key\": \"k\"",
                "\"safety_identifier\": \"s\"",
                "\"guided_json\": null",
                "\"no_such_field\": null",
                "\"functions\": []",
                "\"function_call\": \"none\"",
                "\"modalities\": [\"text\"]",
                "\"use_beam_search\": false",
                "\"bad_words\": []",
                "\"length_penalty\": 1.0",
                "\"response_format\": {\"type\": \"text\"}",
                "\"tools\": []",
                "\"tool_choice\": \"auto\"",
                "\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\"}}], \"tool_choice\": \"none\"",
                "\"max_completion_tokens\": 1",
                "\"stream_options\": {\"include_usage\": true, \"continuous_usage_stats\": null}, \"stream\": true",
                "\"logprobs\": true, \"top_logprobs\": 2"
            })
    void hintsAndNeutralValuesAreAccepted(String field) throws IOException {
        assertThat(ask(CHAT, field).status()).as(field).isEqualTo(200);
    }

    @Test
    void completionsAcceptAnEmptySuffixAndBestOfN() throws IOException {
        assertThat(ask(COMPLETIONS, "\"suffix\": \"\", \"n\": 2, \"best_of\": 2")
                        .status())
                .isEqualTo(200);
        assertRefused(ask(COMPLETIONS, "\"suffix\": \"x\""), "suffix", "leave it out");
        assertRefused(ask(COMPLETIONS, "\"best_of\": 2"), "best_of", "equals n, which is 1");
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            quoteCharacter = '`',
            value = {
                "\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\"}}] | tools | forbid them with "
                        + "tool_choice",
                "\"tool_choice\": {\"type\": \"function\", \"function\": {\"name\": \"f\"}} | tool_choice | send tools",
                "\"tool_choice\": \"required\" | tool_choice | send tools",
                "\"reasoning_effort\": \"high\" | reasoning_effort | cannot change it",
                "\"top_logprobs\": 3 | top_logprobs | needs logprobs",
                "\"logit_bias\": {\"1\": 100, \"2\": -100.5} | logit_bias | token 2 is -100.5; it must lie in [-100.0, "
                        + "100.0]",
                "\"stream_options\": {\"include_usage\": true} | stream_options | needs stream",
                "\"stream\": true, \"stream_options\": {\"x\": 1} | stream_options.x | is not supported",
                "\"stream\": true, \"stream_options\": {\"include_usage\": 1} | stream_options.include_usage | true "
                        + "or false"
            })
    void chatErrorsNameTheFieldAndTheReason(String fields, String parameter, String words) throws IOException {
        assertRefused(ask(CHAT, fields), parameter, words);
    }

    @Test
    void completionsNameLogprobsInErrors() throws IOException {
        assertRefused(ask(COMPLETIONS, "\"logprobs\": 21"), "logprobs", "logprobs is 21; it must lie in [0, 20]");
        assertRefused(ask(COMPLETIONS, "\"logprobs\": true"), "logprobs", "an integer");
    }

    @Test
    void unknownFieldsAreNamed() throws IOException {
        assertRefused(
                ask(CHAT, "\"some_unknown_field\": 1"), "some_unknown_field", "has no field 'some_unknown_field'");
        assertRefused(ask(COMPLETIONS, "\"messages\": []"), "messages", "/v1/completions has no field");
        assertRefused(server.post("/tokenize", "{\"prompt\": \"a\", \"x\": 1}"), "x", "/tokenize has no field 'x'");
        assertRefused(server.post("/detokenize", "{\"tokens\": [1], \"x\": 1}"), "x", "/detokenize has no field 'x'");
    }

    @Test
    void tokenizeAcceptsAPromptOrMessages() throws IOException {
        assertThat(server.post("/tokenize", "{\"prompt\": \"abc\"}")
                        .json()
                        .path("count")
                        .asInt())
                .isEqualTo(3);
        String messages = "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}], \"tools\": []}";
        assertThat(server.post("/tokenize", messages).json().path("count").asInt())
                .isEqualTo("user:hi".length());
        assertRefused(server.post("/tokenize", "{}"), "prompt", "either prompt or messages");
        assertRefused(
                server.post("/tokenize", "{\"prompt\": \"a\", \"messages\": []}"),
                "prompt",
                "either prompt or messages");
        assertRefused(server.post("/tokenize", "{\"prompt\": \"a\", \"tools\": []}"), "tools", "tools needs messages");
    }

    private static String tokensOf(String message) throws IOException {
        RawClient.Answer answer = server.post("/tokenize", "{\"messages\": [" + message + "]}");
        assertThat(answer.status()).as(answer.body()).isEqualTo(200);
        StringBuilder text = new StringBuilder();
        answer.json().path("tokens").forEach(token -> text.append((char) token.asInt()));
        return text.toString();
    }

    @Test
    void theArgumentsOfFormerToolCallsReachTheTemplateAsAnObject() throws IOException {
        String call =
                "{\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{\"id\": \"1\", \"type\": \"function\","
                        + " \"function\": {\"name\": \"f\", \"arguments\": %s}}]}";
        assertThat(tokensOf(call.formatted("\"{\\\"city\\\": \\\"Paris\\\", \\\"days\\\": 3}\"")))
                .contains("city=Paris;days=3;");
        assertThat(tokensOf(call.formatted("{\"city\": \"Paris\"}"))).contains("city=Paris;");
        assertThat(tokensOf(call.formatted("\"\""))).startsWith("assistant:");
        RawClient.Answer broken =
                server.post("/tokenize", "{\"messages\": [" + call.formatted("\"{\\\"city\\\": \"") + "]}");
        assertRefused(broken, "messages", "a tool call whose arguments are a JSON object");
        RawClient.Answer list = server.post("/tokenize", "{\"messages\": [" + call.formatted("\"[1]\"") + "]}");
        assertRefused(list, "messages", "a tool call whose arguments are a JSON object");
    }

    @Test
    void moreRequestsThanTheQueueHoldsAreABadRequest() throws IOException {
        assertRefused(ask(CHAT, "\"n\": 9"), "n", "1 prompts with n = 9 are 9 requests, and the queue holds 8");
        assertRefused(
                server.post(COMPLETIONS, "{\"prompt\": [\"a\", \"b\", \"c\"], \"n\": 3}"),
                "n",
                "3 prompts with n = 3 are 9 requests");
        assertRefused(
                server.post(
                        COMPLETIONS,
                        "{\"prompt\": " + JSON.writeValueAsString(List.of("a b c d e f g h i".split(" "))) + "}"),
                "prompt",
                "the queue holds 8");
    }

    private static String tokens(String body) throws IOException {
        RawClient.Answer answer = server.post("/tokenize", body);
        assertThat(answer.status()).as(answer.body()).isEqualTo(200);
        StringBuilder text = new StringBuilder();
        answer.json().path("tokens").forEach(token -> text.append((char) token.asInt()));
        return text.toString();
    }

    @Test
    void theFinalMessageIsContinued() throws IOException {
        String messages = "{\"messages\": [{\"role\": \"user\", \"content\": \"go\"}, "
                + "{\"role\": \"assistant\", \"content\": \" once upon go \"}]";
        assertThat(tokens(messages + "}")).isEqualTo("user:goassistant: once upon go ");
        assertThat(tokens(messages + ", \"continue_final_message\": true}"))
                .isEqualTo("user:goassistant: once upon go");
        assertThat(server.post(CHAT, messages + ", \"continue_final_message\": true, \"max_tokens\": 1}")
                        .json()
                        .at("/usage/prompt_tokens")
                        .asInt())
                .isEqualTo("user:goassistant: once upon go".length());
        assertRefused(
                server.post(CHAT, messages + ", \"continue_final_message\": true, \"add_generation_prompt\": true}"),
                "continue_final_message",
                "both true");
        assertRefused(
                server.post(
                        CHAT,
                        "{\"messages\": [{\"role\": \"assistant\", \"content\": \" \"}], "
                                + "\"continue_final_message\": true}"),
                "messages",
                "cannot be continued");
    }

    @Test
    void theLastTokensOfALongPromptAreKept() throws IOException {
        String prompt = "{\"prompt\": \"" + "x".repeat(RunningServer.CONTEXT * 7) + "abc\", \"max_tokens\": 2";
        RawClient.Answer cut = server.post(COMPLETIONS, prompt + ", \"truncate_prompt_tokens\": 3, \"echo\": true}");
        assertThat(cut.json().at("/usage/prompt_tokens").asInt()).isEqualTo(3);
        assertThat(cut.json().at("/choices/0/text").asString()).startsWith("t97 t98 t99 ");
        RawClient.Answer full = server.post(COMPLETIONS, prompt + ", \"truncate_prompt_tokens\": -1}");
        assertThat(full.json().at("/usage/prompt_tokens").asInt()).isEqualTo(RunningServer.CONTEXT - 2);
        RawClient.Answer ids = server.post(
                COMPLETIONS,
                "{\"prompt\": [" + "1,".repeat(600) + "2], \"truncate_prompt_tokens\": 10, \"max_tokens\": 1}");
        assertThat(ids.json().at("/usage/prompt_tokens").asInt()).isEqualTo(10);
        assertThat(ask(CHAT, "\"truncate_prompt_tokens\": 4")
                        .json()
                        .at("/usage/prompt_tokens")
                        .asInt())
                .isEqualTo(4);
        assertRefused(ask(CHAT, "\"truncate_prompt_tokens\": 0"), "truncate_prompt_tokens", "at least 1");
        assertRefused(ask(COMPLETIONS, "\"truncate_prompt_tokens\": -2"), "truncate_prompt_tokens", "at least 1");
    }

    @ParameterizedTest
    @ValueSource(strings = {CHAT, COMPLETIONS})
    void aRequestWhoseTimeoutPassesIsCancelled(String path) throws IOException {
        assertRefused(ask(path, "\"timeout\": 0"), "timeout", "(0, 86400]");
        assertThat(ask(path, "\"timeout\": 60").status()).isEqualTo(200);
        try (RunningServer held = new RunningServer()) {
            held.executor.hold();
            String body = path.equals(CHAT)
                    ? "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}], \"timeout\": 0.01"
                    : "{\"prompt\": \"hi\", \"timeout\": 0.01";
            RawClient.Answer late = held.post(path, body + "}");
            assertThat(late.status()).isEqualTo(408);
            assertThat(late.headers()).containsEntry("x-should-retry", "false");
            assertThat(late.error()).contains("timeout of 0.01 s");
            assertThat(late.parameter()).isEqualTo("timeout");
            RawClient.Answer stream = held.post(path, body + ", \"stream\": true}");
            assertThat(stream.body()).contains("timeout of 0.01 s").endsWith("data: [DONE]\n\n");
            held.executor.release();
            assertThat(held.post(path, body.replace("0.01", "60") + ", \"max_tokens\": 1}")
                            .status())
                    .isEqualTo(200);
        }
    }

    // --- lengths

    @Test
    void textThatCannotFitIsRefusedWithoutTokenizing() throws IOException {
        int calls = server.tokenizer.calls.get();
        String text = "x".repeat(RunningServer.CONTEXT * 6 + 1); // the longest token has five characters
        assertRefused(
                server.post(COMPLETIONS, "{\"prompt\": \"" + text + "\"}"),
                "prompt",
                "maximum context length is 512 tokens");
        assertRefused(
                server.post(CHAT, "{\"messages\": [{\"role\": \"user\", \"content\": \"" + text + "\"}]}"),
                "messages",
                "maximum context length is 512 tokens");
        assertRefused(
                server.post(
                        CHAT,
                        "{\"messages\": [" + "{\"role\": \"user\", \"content\": \"\"},".repeat(513)
                                + "{\"role\": \"user\", \"content\": \"\"}]}"),
                "messages",
                "maximum context length is 512 tokens");
        assertRefused(
                server.post(COMPLETIONS, "{\"prompt\": [" + "1,".repeat(513) + "1]}"),
                "prompt",
                "maximum context length is 512 tokens");
        assertThat(server.tokenizer.calls.get()).isEqualTo(calls);
    }

    @ParameterizedTest
    @ValueSource(strings = {"max_tokens", "max_completion_tokens"})
    void errorsNameTheFieldThatTheClientSent(String field) throws IOException {
        String chat = "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}], \"" + field + "\": ";
        assertRefused(server.post(CHAT, chat + "0}"), field, field + " is 0; it must be at least 1");
        assertRefused(server.post(CHAT, chat + "600}"), field, "maximum context length is 512 tokens");
        assertRefused(
                server.post(CHAT, chat + "2, \"min_tokens\": 3}"), "min_tokens", "at most " + field + ", which is 2");
        assertRefused(server.post(CHAT, chat + "\"many\"}"), field, field);
    }

    @Test
    void textThatTheTokenizerRefusesIsABadRequest() throws IOException {
        assertRefused(
                server.post(COMPLETIONS, "{\"prompt\": \"" + FakeTokenizer.TOO_MUCH + "\"}"), "prompt", "too much");
        assertRefused(
                server.post("/tokenize", "{\"prompt\": \"" + FakeTokenizer.TOO_MUCH + "\"}"), "prompt", "too much");
    }

    // --- hostile input

    @Test
    void unpairedSurrogatesAreRefused() throws IOException {
        assertRefused(server.post(COMPLETIONS, "{\"prompt\": \"ab\\ud800c\"}"), "prompt", "\\ud800, at character 2");
        assertThat(ask(COMPLETIONS, "\"\\ud800\": 1").status()).isEqualTo(400);
        assertThat(server.post(COMPLETIONS, "{\"prompt\": \"a\", \"model\": \"\\udc00\"}")
                        .error())
                .contains("\\udc00");
        assertThat(server.post(COMPLETIONS, "{\"prompt\": \"\\ud83d\\ude42\", \"max_tokens\": 1, \"echo\": true}")
                        .status())
                .isEqualTo(200);
    }

    @Test
    void namesAndValuesAreEscapedInLogsAndErrors() throws IOException {
        StringBuilder logged = new StringBuilder();
        Handler handler = new Handler() {
            @Override
            public void publish(LogRecord record) {
                logged.append(record.getMessage());
            }

            @Override
            public void flush() {}

            @Override
            public void close() {}
        };
        Logger root = Logger.getLogger("");
        root.addHandler(handler);
        try {
            for (String field : List.of(
                    "\"x\\nSEVERE: forged\\u001b[2J\": 1",
                    "\"model\": \"x\\nforged\\u001b[2J\"",
                    "\"stop\": [{\"a\\n\": 1}]",
                    "\"temperature\": \"\\u001b[2J\\n\"",
                    "\"logit_bias\": {\"\\n\\u001b[2J\": 1}")) {
                RawClient.Answer answer = ask(COMPLETIONS, field);
                assertThat(answer.status()).isIn(400, 404);
                assertThat(answer.error()).doesNotContain("\n", "\u001b");
                assertThat(answer.parameter()).doesNotContain("\n", "\u001b");
            }
        } finally {
            root.removeHandler(handler);
        }
        assertThat(logged).doesNotContain("forged");
    }

    @Test
    void collidingNamesOfOneClientDoNotBlockOthers() throws IOException {
        // names with equal hashes fill a table that requests share; later names find no place in it
        List<String> names = collidingNames(2000);
        for (int from = 0; from < names.size(); from += 100) {
            List<String> some = names.subList(from, from + 100).stream()
                    .map(name -> '"' + name + "\": 1")
                    .toList();
            RawClient.Answer answer = server.post(
                    "/tokenize",
                    "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}]," + " \"chat_template_kwargs\": {"
                            + String.join(", ", some) + "}}");
            assertThat(answer.status())
                    .as("names from %d: %s", from, answer.body())
                    .isEqualTo(200);
        }
    }

    @Test
    void templateVariablesCannotReplaceWhatTheServerSets() throws IOException {
        RawClient.Answer answer = server.post(
                "/tokenize",
                "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}],"
                        + " \"chat_template_kwargs\": {\"messages\": []}}");
        assertThat(answer.status()).isEqualTo(400);
        assertThat(answer.parameter()).isEqualTo("chat_template_kwargs");
        assertThat(answer.error()).contains("'messages'");
    }

    /** Names of eight letters that have the same hash in the parser's table, whatever its seed. */
    private static List<String> collidingNames(int count) {
        int inverseOf33 = 0x3e0f83e1;
        List<String> names = new ArrayList<>();
        for (int first = 0; names.size() < count; first++) {
            int start = 0;
            for (int letter = 0, rest = first; letter < 4; letter++, rest /= 26) {
                start = start << 8 | 'a' + rest % 26;
            }
            int mixed = start + (start >>> 15);
            mixed ^= mixed >>> 9;
            String end = text((0x61616161 - mixed) * inverseOf33);
            if (end.chars().allMatch(c -> c > '"' && c < 127 && c != '\\')) {
                names.add(text(start) + end);
            }
        }
        return names;
    }

    private static String text(int letters) {
        return new String(ByteBuffer.allocate(4).putInt(letters).array(), StandardCharsets.ISO_8859_1);
    }

    @Test
    void bodiesBeyondTheJsonLimitsAreRefusedWithAClearError() throws IOException {
        for (String body : List.of(
                "{\"messages\": " + "[".repeat(2000) + "]".repeat(2000) + "}",
                "{\"seed\": " + "9".repeat(500) + "}",
                "{\"" + "x".repeat(5000) + "\": 1}")) {
            assertRefused(server.post(CHAT, body), "", "the body exceeds a limit");
        }
        for (String body : List.of(
                "{", "{\"a\" 1}", "{\"a\": 1} x", "{\"a\": 1, \"a\": 2}", "{\"a\": NaN}", "nul", "{\"a\": 01}")) {
            RawClient.Answer answer = server.post(CHAT, body);
            assertRefused(answer, "", "not valid JSON");
            assertThat(answer.error()).doesNotContain("jackson", "Jackson", "Source", "StreamRead", "token (");
        }
        assertRefused(server.post(CHAT, ""), "", "the body is empty");
        assertRefused(server.post(CHAT, "[]"), "", "must be a JSON object");
        assertRefused(server.post(CHAT, "{\"messages\": \"hi\"}"), "messages", "messages is \"hi\"; it must be a list");
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "\"temperature\": 1e-300, \"top_p\": 0.9",
                "\"temperature\": 2e-39, \"top_p\": 0.5",
                "\"repetition_penalty\": 1e-40",
                "\"temperature\": 1e308",
                "\"top_p\": 1e-300",
                "\"top_k\": 2147483647",
                "\"min_p\": 1",
                "\"seed\": -9223372036854775808",
                "\"presence_penalty\": -2, \"frequency_penalty\": 2",
                "\"logit_bias\": {\"1\": 1e300}",
                "\"max_tokens\": 2147483647",
                "\"min_tokens\": 2147483647",
                "\"temperature\": 1e400",
                "\"ttft_target\": 1e300",
                "\"priority\": -2147483648"
            })
    void extremeValuesDoNotEndOtherRequests(String fields) throws IOException {
        String body = "{\"prompt\": \"hi\", \"ignore_eos\": true, " + fields + "}";
        assertThat(server.post(COMPLETIONS, body).status()).as(fields).isIn(200, 400);
        assertThat(ask(COMPLETIONS, "").status()).as("after " + fields).isEqualTo(200);
        assertThat(server.get("/health").status()).isEqualTo(200);
    }
}
