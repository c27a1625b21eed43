package dev.tandem.server.openai;

import java.util.Locale;
import java.util.function.UnaryOperator;

/** Reads the API key that a client sends. */
final class SentKey {
    private static final String SCHEME = "bearer ";

    private SentKey() {}

    /**
     * The key in {@code Authorization}, as OpenAI's clients send it, else that in {@code x-api-key}, as Anthropic's do;
     * empty when there is none.
     *
     * @param headers value of a header by its name in lower case; empty when it is absent
     */
    static String of(UnaryOperator<String> headers) {
        String bearer = bearer(headers.apply("authorization"));
        return bearer.isEmpty() ? headers.apply("x-api-key") : bearer;
    }

    private static String bearer(String authorization) {
        return authorization.toLowerCase(Locale.ROOT).startsWith(SCHEME)
                ? authorization.substring(SCHEME.length()).strip()
                : "";
    }
}
