package dev.tandem.server.openai;

import java.util.Map;

/** The tables of request fields of Anthropic's Messages API. */
final class MessagesFields {
    private MessagesFields() {}

    static Map<String, ApiFields.Rule> create() {
        return prompt(new ApiFields.Rules())
                .honours("max_tokens", FieldType.INTEGER, "max tokens of the answer; required")
                .honours("stream", FieldType.BOOLEAN, "whether the answer comes as server-sent events")
                .honours(
                        "temperature",
                        FieldType.NUMBER,
                        "0 is greedy; the model's recommendation when left out, else 1")
                .honours("top_p", FieldType.NUMBER, "likewise")
                .honours("top_k", FieldType.INTEGER, "likewise")
                .honours("stop_sequences", FieldType.LIST, "strings that end the answer")
                .honours("timeout", FieldType.NUMBER, "seconds within which the answer must be complete; Tandem's own")
                .honours(
                        "cache_salt",
                        FieldType.STRING,
                        "shares the KV of equal prefixes with requests of the same salt only; Tandem's own")
                .ignores("metadata", "nothing is kept per user")
                .ignores("service_tier", "there is one tier")
                .byName;
    }

    static Map<String, ApiFields.Rule> countTokens() {
        return prompt(new ApiFields.Rules()).byName;
    }

    /** Fields that make the prompt. */
    private static ApiFields.Rules prompt(ApiFields.Rules rules) {
        return rules.honours(
                        "messages",
                        FieldType.LIST,
                        "the conversation of user and assistant: text or content blocks; required")
                .honours("model", FieldType.STRING, "the served model's name; may be left out")
                .honours("system", FieldType.ANY, "the system prompt: text or a list of text blocks")
                .ignores("cache_control", "equal prefixes are found without it")
                .honours("tools", FieldType.LIST, "what the model may call; refused when its template shows no tools")
                .honours(
                        "tool_choice",
                        FieldType.OBJECT,
                        "of the type auto, any, tool (with a name) or none; disable_parallel_tool_use allows one call"
                                + " per answer")
                .honours(
                        "thinking",
                        FieldType.OBJECT,
                        "of the type enabled, with budget_tokens, or adaptive or disabled; default disabled")
                .honours(
                        "output_config",
                        FieldType.OBJECT,
                        "its format, of the type json_schema: what the answer must be; effort may only be \"high\"")
                .honours("output_format", FieldType.OBJECT, "the older name of output_config.format")
                .refusesUnlessEmpty("mcp_servers", "the server calls no tools; " + ApiFields.LEAVE_OUT)
                .refusesUnlessEmpty("context_management", "shorten the conversation")
                .refuses("container", "the server runs no code; " + ApiFields.LEAVE_OUT);
    }
}
