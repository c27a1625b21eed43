package dev.tandem.server.openai;

import java.util.Locale;

/** Reads the API key that a client sends. */
final class BearerKey {
    private static final String SCHEME = "bearer ";

    private BearerKey() {}

    /** The key in an {@code Authorization} header; empty when there is none. */
    static String of(String authorization) {
        return authorization.toLowerCase(Locale.ROOT).startsWith(SCHEME)
                ? authorization.substring(SCHEME.length()).strip()
                : "";
    }
}
