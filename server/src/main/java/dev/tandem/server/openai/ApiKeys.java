package dev.tandem.server.openai;

import dev.tandem.server.http.RequestHead;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.List;

/**
 * The API keys of the server. Keys are compared in a time that does not depend on where they differ, and no text of
 * this class shows one.
 *
 * <p>Owned by: any thread; immutable.
 */
public final class ApiKeys {
    /** No key is needed. */
    public static final ApiKeys NONE = new ApiKeys(List.of());

    private final List<byte[]> keys;

    private ApiKeys(List<byte[]> keys) {
        this.keys = keys;
    }

    /** Accepts each of these keys; without any, no key is needed. */
    public static ApiKeys of(List<String> keys) {
        return new ApiKeys(
                keys.stream().map(key -> key.getBytes(StandardCharsets.UTF_8)).toList());
    }

    /** Whether the head has one of the keys; true without keys. */
    boolean allow(RequestHead head) {
        return keys.isEmpty() || has(SentKey.of(head::header));
    }

    /** Compares with every key, so that the time does not tell which one is right. */
    private boolean has(String given) {
        byte[] bytes = given.getBytes(StandardCharsets.UTF_8);
        boolean found = false;
        for (byte[] key : keys) {
            found |= MessageDigest.isEqual(bytes, key);
        }
        return found;
    }

    @Override
    public String toString() {
        return keys.size() + " API keys";
    }
}
