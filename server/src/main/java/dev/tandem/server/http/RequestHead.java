package dev.tandem.server.http;

import java.util.Map;

/**
 * A request without its body.
 *
 * @param path without the query
 * @param headers names in lower case; of a repeated header the last value
 * @param http10 whether the client speaks HTTP/1.0, which has no chunked encoding
 * @param keepAlive whether the client wants to send further requests on the connection
 */
public record RequestHead(String method, String path, Map<String, String> headers, boolean http10, boolean keepAlive) {
    /** A header's value, empty when absent. */
    public String header(String lowerCaseName) {
        return headers.getOrDefault(lowerCaseName, "");
    }

    public boolean has(String lowerCaseName) {
        return headers.containsKey(lowerCaseName);
    }
}
