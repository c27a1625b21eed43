package dev.tandem.server.openai;

import dev.tandem.engine.request.PrefixCaching;
import dev.tandem.engine.request.RequestException;
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
        String key = switch (this) {
            case NONE -> "";
            case API_KEY -> SentKey.of(headers);
        };
        return PrefixCaching.salted(key.isEmpty() ? salt : key.length() + ":" + key + salt);
    }
}
