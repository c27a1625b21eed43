package dev.tandem.server.openai;

import java.util.Map;
import tools.jackson.databind.JsonNode;

/** The table of request fields of OpenAI's Responses API. */
final class ResponsesFields {
    private ResponsesFields() {}

    static Map<String, ApiFields.Rule> create() {
        return new ApiFields.Rules()
                .honours("input", FieldType.ANY, "the user's text, or a list of items; required")
                .honours("instructions", FieldType.STRING, "the system prompt of this response alone")
                .honours("model", FieldType.STRING, "the served model's name; may be left out")
                .honours(
                        "previous_response_id",
                        FieldType.STRING,
                        "the stored response whose conversation the input continues")
                .honours("store", FieldType.BOOLEAN, "whether the response is kept for later requests; default true")
                .honours(
                        "background",
                        FieldType.BOOLEAN,
                        "whether the response is computed after the answer; needs store, and no stream; default false")
                .honours("stream", FieldType.BOOLEAN, "whether the answer comes as server-sent events")
                .honours("metadata", FieldType.OBJECT, "returned with the response")
                .honours(
                        "max_output_tokens",
                        FieldType.INTEGER,
                        "max tokens of the answer; the rest of the context when left out")
                .honours(
                        "temperature",
                        FieldType.NUMBER,
                        "0 is greedy; the model's recommendation when left out, else 1")
                .honours("top_p", FieldType.NUMBER, "likewise")
                .honours("top_k", FieldType.INTEGER, "likewise; Tandem's own")
                .honours("seed", FieldType.INTEGER, "makes the draw reproducible; Tandem's own")
                .honours("timeout", FieldType.NUMBER, "seconds within which the answer must be complete; Tandem's own")
                .honours(
                        "cache_salt",
                        FieldType.STRING,
                        "shares the KV of equal prefixes with requests of the same salt only; Tandem's own")
                .ignores("user", "nothing is kept per user")
                .ignores("safety_identifier", "nothing is kept per user")
                .ignores("prompt_cache_key", "equal prefixes are found without it")
                .ignores("prompt_cache_retention", "KV is kept until its memory is needed")
                .ignores("service_tier", "there is one tier")
                .honoursTools()
                .honours(
                        "text",
                        FieldType.OBJECT,
                        "its format is text, json_object or json_schema: what the answer must be")
                .honours(
                        "reasoning",
                        FieldType.OBJECT,
                        "effort, as reasoning_effort of " + ApiFields.Endpoint.CHAT.path
                                + "; a summary may only be \"auto\", because reasoning comes as it is")
                .refusesUnlessText("disabled", "truncation", "shorten the input")
                .refusesUnless(
                        "[\"reasoning.encrypted_content\"]",
                        value -> value.isArray()
                                && value.valueStream().allMatch(item -> isText(item, "reasoning.encrypted_content")),
                        "include",
                        "reasoning comes as text; " + ApiFields.LEAVE_OUT)
                .refusesUnlessNumber(0, "top_logprobs", "use /v1/chat/completions")
                .refuses("max_tool_calls", "the server itself calls no tools; " + ApiFields.LEAVE_OUT)
                .refuses("conversation", "use previous_response_id")
                .refuses("prompt", "send input")
                .refuses("context_management", "shorten the input")
                .refusesUnless(
                        "{\"include_obfuscation\": false}",
                        value -> value.isObject()
                                && value.propertyStream()
                                        .allMatch(field -> field.getKey().equals("include_obfuscation")
                                                && field.getValue().isBoolean()
                                                && !field.getValue().asBoolean()),
                        "stream_options",
                        ApiFields.LEAVE_OUT)
                .byName;
    }

    private static boolean isText(JsonNode value, String text) {
        return value.isString() && value.asString().equals(text);
    }
}
