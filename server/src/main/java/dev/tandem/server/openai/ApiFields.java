package dev.tandem.server.openai;

import dev.tandem.engine.request.RequestException;
import dev.tandem.server.http.Printable;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.function.Predicate;
import tools.jackson.databind.JsonNode;

/**
 * The table of all request fields. A field is honoured, ignored (accepted without effect) or refused; a field that is
 * not in the table is refused. A test writes docs/api-fields.md from this table.
 */
final class ApiFields {
    /** An endpoint that reads a JSON body. */
    enum Endpoint {
        CHAT("/v1/chat/completions"),
        COMPLETIONS("/v1/completions"),
        MESSAGES("/v1/messages"),
        COUNT_TOKENS("/v1/messages/count_tokens"),
        RESPONSES("/v1/responses"),
        TOKENIZE("/tokenize"),
        DETOKENIZE("/detokenize");

        final String path;

        Endpoint(String path) {
            this.path = path;
        }
    }

    /** How the server treats a field. */
    sealed interface Rule {
        /**
         * Read by the endpoint's handler.
         *
         * @param type that its reader requires
         * @param meaning as docs/api-fields.md shows it
         */
        record Honoured(FieldType type, String meaning) implements Rule {}

        /** A hint that is accepted without effect: the answer is correct without it. */
        record Ignored(String reason) implements Rule {}

        /**
         * Answered with an error.
         *
         * @param remedy what the client does instead
         * @param neutral describes the values that are accepted because they change nothing; empty when there are none
         */
        record Refused(String remedy, String neutral, Predicate<JsonNode> isNeutral) implements Rule {}
    }

    static final String LEAVE_OUT = "leave it out";

    private static final Map<Endpoint, Map<String, Rule>> TABLE = Map.of(
            Endpoint.CHAT, chat(),
            Endpoint.COMPLETIONS, completions(),
            Endpoint.MESSAGES, MessagesFields.create(),
            Endpoint.COUNT_TOKENS, MessagesFields.countTokens(),
            Endpoint.RESPONSES, ResponsesFields.create(),
            Endpoint.TOKENIZE, tokenize(),
            Endpoint.DETOKENIZE, detokenize());

    private ApiFields() {}

    static Map<String, Rule> of(Endpoint endpoint) {
        return Objects.requireNonNull(TABLE.get(endpoint), "every endpoint has rules");
    }

    /** Throws unless the field is honoured, ignored, or has a neutral value. */
    static void check(Endpoint endpoint, String name, JsonNode value) {
        if (value.isNull()) {
            return; // some clients send absent fields as null
        }
        switch (of(endpoint).get(name)) {
            case Rule.Honoured honoured -> {}
            case Rule.Ignored ignored -> {}
            case Rule.Refused refused -> {
                if (!refused.isNeutral().test(value)) {
                    throw RequestException.bad(name, name + " is not supported: " + refused.remedy());
                }
            }
            case null -> {
                String shown = Printable.of(name);
                throw RequestException.bad(shown, endpoint.path + " has no field '" + shown + "'; " + LEAVE_OUT);
            }
        }
    }

    /** Throws when a handler reads a field that the table does not list as honoured, or lists with another type. */
    static void requireHonoured(Endpoint endpoint, String name, FieldType type) {
        if (!(of(endpoint).get(name) instanceof Rule.Honoured honoured)
                || type != FieldType.ANY && honoured.type() != type) {
            throw new IllegalStateException("a handler reads the field " + name + " as " + type + ", but the table of "
                    + endpoint + " does not honour it so");
        }
    }

    static boolean honours(Endpoint endpoint, String name) {
        return of(endpoint).get(name) instanceof Rule.Honoured;
    }

    /** Collects the rules of an endpoint, in the order of docs/api-fields.md. */
    static final class Rules {
        final Map<String, Rule> byName = new LinkedHashMap<>();

        Rules honours(String name, String meaning) {
            return honours(name, FieldType.ANY, meaning);
        }

        Rules honours(String name, FieldType type, String meaning) {
            return add(name, new Rule.Honoured(type, meaning));
        }

        /** Honours the fields of tools that {@link ToolFields} reads. */
        Rules honoursTools() {
            return honours(
                            "tools",
                            FieldType.LIST,
                            "functions that the model may call; refused when its template shows none")
                    .honours(
                            "tool_choice",
                            "\"auto\", \"none\" (the tools are not shown), \"required\", or one by its name")
                    .honours(
                            "parallel_tool_calls",
                            FieldType.BOOLEAN,
                            "whether an answer may have several calls; default true");
        }

        Rules ignores(String name, String reason) {
            return add(name, new Rule.Ignored(reason));
        }

        Rules refuses(String name, String remedy) {
            return add(name, new Rule.Refused(remedy, "", value -> false));
        }

        Rules refusesUnless(String neutral, Predicate<JsonNode> isNeutral, String name, String remedy) {
            return add(name, new Rule.Refused(remedy, neutral, isNeutral));
        }

        Rules refusesUnlessFalse(String name, String remedy) {
            return refusesUnless("false", value -> value.isBoolean() && !value.asBoolean(), name, remedy);
        }

        Rules refusesUnlessTrue(String name, String remedy) {
            return refusesUnless("true", value -> value.isBoolean() && value.asBoolean(), name, remedy);
        }

        Rules refusesUnlessEmpty(String name, String remedy) {
            return refusesUnless("[] or {}", value -> value.isContainer() && value.isEmpty(), name, remedy);
        }

        Rules refusesUnlessNumber(int neutral, String name, String remedy) {
            return refusesUnless(
                    Integer.toString(neutral), value -> value.isNumber() && value.asDouble() == neutral, name, remedy);
        }

        Rules refusesUnlessText(String neutral, String name, String remedy) {
            return refusesUnless(
                    '"' + neutral + '"',
                    value -> value.isString() && value.asString().equals(neutral),
                    name,
                    remedy);
        }

        private Rules add(String name, Rule rule) {
            if (byName.put(name, rule) != null) {
                throw new IllegalArgumentException("the field " + name + " is listed twice");
            }
            return this;
        }
    }

    private static Map<String, Rule> chat() {
        Rules rules = new Rules()
                .honours(
                        "messages",
                        FieldType.LIST,
                        "the conversation: a list of objects with a role; content is text or a list of text parts")
                .honours("model", FieldType.STRING, "the served model's name; may be left out")
                .honours(
                        "max_completion_tokens",
                        FieldType.INTEGER,
                        "max tokens of the answer; the rest of the context when left out")
                .honours(
                        "max_tokens",
                        FieldType.INTEGER,
                        "the older name of max_completion_tokens, which takes precedence");
        generation(rules);
        return rules.honours("logprobs", FieldType.BOOLEAN, "whether log-probabilities are reported")
                .honours("top_logprobs", FieldType.INTEGER, "alternatives per token; needs logprobs")
                .honours(
                        "add_generation_prompt",
                        FieldType.BOOLEAN,
                        "whether the template asks the model to answer; default true")
                .honours(
                        "add_special_tokens",
                        FieldType.BOOLEAN,
                        "whether the tokenizer adds tokens to the templated text; default false")
                .honours(
                        "continue_final_message",
                        FieldType.BOOLEAN,
                        "whether the answer continues the last message; default false")
                .honours("chat_template_kwargs", FieldType.OBJECT, "further variables of the chat template")
                .honoursTools()
                .honours(
                        "reasoning_effort",
                        FieldType.STRING,
                        "none, minimal, low, medium, high or xhigh; where the template can only switch reasoning,"
                                + " all but none switch it on")
                .honours("thinking_token_budget", FieldType.INTEGER, "max tokens of reasoning; then the server ends it")
                .honours("include_reasoning", FieldType.BOOLEAN, "whether reasoning_content is sent; default true")
                .ignores("prediction", "the answer is the same without it")
                .refusesUnlessEmpty("functions", "use tools")
                .refusesUnlessText("none", "function_call", "use tool_choice")
                .refuses("chat_template", "the model's own template is used; " + LEAVE_OUT)
                .refusesUnlessEmpty("documents", "put the documents' text into a message")
                .refusesUnless(
                        "[\"text\"]",
                        value -> value.isArray()
                                && value.size() == 1
                                && value.get(0).asString("").equals("text"),
                        "modalities",
                        "answers are text; " + LEAVE_OUT)
                .refuses("audio", "answers are text; " + LEAVE_OUT)
                .refuses("web_search_options", "the server has no web search; " + LEAVE_OUT)
                .refusesUnlessText("medium", "verbosity", "ask for it in a message")
                .refusesUnlessEmpty("mm_processor_kwargs", "messages are text; " + LEAVE_OUT)
                .refusesUnlessEmpty("media_io_kwargs", "messages are text; " + LEAVE_OUT)
                .refusesUnlessFalse("echo", "use /v1/completions")
                .refusesUnlessNumber(1, "best_of", "use n")
                .byName;
    }

    private static Map<String, Rule> completions() {
        Rules rules = new Rules()
                .honours("prompt", "a string, a list of strings, token ids, or lists of token ids")
                .honours("model", FieldType.STRING, "the served model's name; may be left out")
                .honours("max_tokens", FieldType.INTEGER, "max tokens of the answer; default 16; 0 needs echo");
        generation(rules);
        return rules.honours(
                        "logprobs",
                        FieldType.INTEGER,
                        "alternatives per token for which log-probabilities are reported")
                .honours(
                        "echo",
                        FieldType.BOOLEAN,
                        "whether the prompt's text precedes the answer, with logprobs its log-probabilities too")
                .honours("best_of", FieldType.INTEGER, "accepted when it equals n")
                .honours(
                        "add_special_tokens",
                        FieldType.BOOLEAN,
                        "whether the tokenizer adds its special tokens to a prompt; default true")
                .refusesUnlessText("", "suffix", LEAVE_OUT)
                .refuses("prompt_embeds", "send prompt")
                .byName;
    }

    /** Fields of both endpoints that generate text. */
    private static void generation(Rules rules) {
        rules.honours("n", FieldType.INTEGER, "answers per prompt")
                .honours("stream", FieldType.BOOLEAN, "whether the answer comes as server-sent events")
                .honours("stream_options", FieldType.OBJECT, "include_usage and continuous_usage_stats; needs stream")
                .honours(
                        "host_usage",
                        FieldType.BOOLEAN,
                        "whether usage has host_tokens, decoded on the host, and host_cached_tokens, found there; "
                                + "in chunks with continuous_usage_stats; Tandem's own")
                .honours(
                        "temperature",
                        FieldType.NUMBER,
                        "0 is greedy; the model's recommendation when left out, else 1")
                .honours("top_p", FieldType.NUMBER, "likewise")
                .honours("top_k", FieldType.INTEGER, "likewise; 0 and -1 keep all tokens")
                .honours("min_p", FieldType.NUMBER, "default 0")
                .honours("repetition_penalty", FieldType.NUMBER, "the model's recommendation when left out, else 1")
                .honours("presence_penalty", FieldType.NUMBER, "default 0")
                .honours("frequency_penalty", FieldType.NUMBER, "default 0")
                .honours("logit_bias", FieldType.OBJECT, "an object from token id to a number from -100 to 100")
                .honours("allowed_token_ids", FieldType.LIST, "the only token ids that the answer may have")
                .honours("bad_words", FieldType.LIST, "words that the answer may not have")
                .honours(
                        "prompt_logprobs",
                        FieldType.INTEGER,
                        "alternatives per prompt token for which log-probabilities are reported")
                .honours("seed", FieldType.INTEGER, "makes the draw reproducible")
                .honours("stop", "a string or a list of strings that end the answer")
                .honours("stop_token_ids", FieldType.LIST, "a list of token ids that end the answer")
                .honours("include_stop_str_in_output", FieldType.BOOLEAN, "default false")
                .honours("min_tokens", FieldType.INTEGER, "min tokens of the answer; default 0")
                .honours("ignore_eos", FieldType.BOOLEAN, "whether the answer goes on to max_tokens; default false")
                .honours(
                        "skip_special_tokens",
                        FieldType.BOOLEAN,
                        "whether special tokens are left out of the text; default true")
                .honours(
                        "response_format",
                        FieldType.OBJECT,
                        "text, json_object, json_schema or structural_tag: what the answer must be")
                .honours(
                        "structured_outputs",
                        FieldType.OBJECT,
                        "one of json, json_object, regex, choice, grammar (Lark) and structural_tag;"
                                + " and disable_any_whitespace")
                .honours("guided_json", "the older name of structured_outputs.json")
                .honours("guided_regex", "the older name of structured_outputs.regex")
                .honours("guided_choice", "the older name of structured_outputs.choice")
                .honours("guided_grammar", "the older name of structured_outputs.grammar")
                .honours(
                        "truncate_prompt_tokens",
                        FieldType.INTEGER,
                        "max tokens of the prompt, of which the last are kept; -1 for as many as the context holds")
                .honours("timeout", FieldType.NUMBER, "seconds within which the answer must be complete; Tandem's own")
                .honours("priority", FieldType.INTEGER, "lower runs first; needs --scheduling-policy priority")
                .honours(
                        "cache_salt",
                        FieldType.STRING,
                        "shares the KV of equal prefixes with requests of the same salt only")
                .honours(
                        "ttft_target",
                        FieldType.NUMBER,
                        "target for the time to first token, in ms; guides placement; Tandem's own")
                .honours(
                        "tpot_target",
                        FieldType.NUMBER,
                        "target for the time per output token, in ms; guides placement; Tandem's own")
                .ignores("user", "nothing is kept per user")
                .ignores("metadata", "answers are not stored")
                .ignores("store", "answers are not stored")
                .ignores("service_tier", "there is one tier")
                .ignores("safety_identifier", "nothing is kept per user")
                .ignores("prompt_cache_key", "equal prefixes are found without it")
                .ignores("prompt_cache_retention", "KV is kept until its memory is needed")
                .refusesUnless(
                        "\"auto\" or \"guidance\"",
                        value -> value.isString() && List.of("auto", "guidance").contains(value.asString()),
                        "guided_decoding_backend",
                        LEAVE_OUT)
                .refuses("guided_whitespace_pattern", "use structured_outputs.disable_any_whitespace")
                .refuses("structural_tag", "use response_format with the type structural_tag")
                .refusesUnlessEmpty("logits_processors", "use logit_bias")
                .refusesUnlessFalse("use_beam_search", LEAVE_OUT)
                .refusesUnlessNumber(1, "length_penalty", "it belongs to beam search; " + LEAVE_OUT)
                .refusesUnlessFalse("early_stopping", "it belongs to beam search; " + LEAVE_OUT)
                .refusesUnlessTrue("spaces_between_special_tokens", LEAVE_OUT)
                .refusesUnlessFalse("return_token_ids", "use /tokenize")
                .refusesUnlessFalse("return_tokens_as_token_ids", LEAVE_OUT)
                .refuses("request_id", "send the header X-Request-Id")
                .refusesUnlessNumber(1, "stream_interval", LEAVE_OUT)
                .refuses("repetition_detection", "use repetition_penalty")
                .refusesUnlessEmpty("kv_transfer_params", LEAVE_OUT)
                .refusesUnlessEmpty("vllm_xargs", LEAVE_OUT);
    }

    private static Map<String, Rule> tokenize() {
        return new Rules()
                .honours("prompt", FieldType.STRING, "the text; or send messages")
                .honours("messages", FieldType.LIST, "a conversation, as for " + Endpoint.CHAT.path)
                .honours("model", FieldType.STRING, "the served model's name; may be left out")
                .honours("add_special_tokens", FieldType.BOOLEAN, "default true for a prompt, false for messages")
                .honours(
                        "return_token_strs",
                        FieldType.BOOLEAN,
                        "whether the tokens' spellings are returned; default false")
                .honours("add_generation_prompt", FieldType.BOOLEAN, "with messages; default true")
                .honours("chat_template_kwargs", FieldType.OBJECT, "with messages")
                .honours("reasoning_effort", FieldType.STRING, "with messages, as for " + Endpoint.CHAT.path)
                .honours("tools", "with messages: shown to the model's template")
                .honours("tool_choice", "with messages: \"none\" leaves the tools out")
                .honours("continue_final_message", FieldType.BOOLEAN, "with messages; default false")
                .refuses("chat_template", "the model's own template is used; " + LEAVE_OUT)
                .refusesUnlessEmpty("mm_processor_kwargs", "messages are text; " + LEAVE_OUT)
                .byName;
    }

    private static Map<String, Rule> detokenize() {
        return new Rules()
                .honours("tokens", FieldType.LIST, "a list of token ids")
                .honours("model", FieldType.STRING, "the served model's name; may be left out")
                .byName;
    }
}
