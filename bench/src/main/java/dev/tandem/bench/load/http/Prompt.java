package dev.tandem.bench.load.http;

import java.util.List;

/**
 * One request's prompt and how much is to be generated.
 *
 * @param content what is sent
 * @param promptTokens its length as far as the client knows; a server's own count replaces it
 * @param outputTokens max tokens to generate
 */
public record Prompt(Content content, int promptTokens, int outputTokens) {
    /** What is sent as prompt. */
    public sealed interface Content {
        /** Text, which the server tokenizes. */
        record Text(String text) implements Content {}

        /** A conversation so far: the user's messages and the answers between them, in order. */
        record Messages(List<String> texts) implements Content {}

        /** Token ids, which only {@code /v1/completions} takes. */
        record Tokens(int[] ids) implements Content {}
    }
}
