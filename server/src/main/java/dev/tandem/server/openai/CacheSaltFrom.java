package dev.tandem.server.openai;

import dev.tandem.engine.request.PrefixCaching;
import dev.tandem.engine.request.RequestException;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.function.UnaryOperator;

/** What separates clients in the prefix cache, besides the {@code cache_salt} of their requests. */
public enum CacheSaltFrom {
    /** Nothing: clients share the KV of equal prefixes. */
    NONE,
    /** The key that a client sends: clients with different keys share nothing. */
    API_KEY;

    /**
     * With whom a request shares prefixes; a client's own salt never leads out of what its key allows.
     *
     * @param headers value of a header by its name in lower case; empty when it is absent
     */
    PrefixCaching read(RequestFields fields, UnaryOperator<String> headers) {
        String salt = fields.text("cache_salt").orElse("");
        if (salt.isEmpty() && fields.field("cache_salt").isPresent()) {
            throw RequestException.bad("cache_salt", "cache_salt is empty; send a non-empty string or leave it out");
        }
        return PrefixCaching.salted(
                switch (this) {
                    case NONE -> salt;
                    case API_KEY -> digest(SentKey.of(headers)) + salt;
                });
    }

    /** What stands for a key: whoever reads KV events sees salts, and must not see keys. */
    private static String digest(String key) {
        try {
            MessageDigest sha256 = MessageDigest.getInstance("SHA-256");
            return HexFormat.of().formatHex(sha256.digest(key.getBytes(StandardCharsets.UTF_8)));
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException("every Java platform has SHA-256", e);
        }
    }
}
