package dev.tandem.server.http;

import java.util.Map;

/**
 * The request line and headers of a request.
 *
 * @param path without the query
 * @param headers by name in lower case; the last value of a repeated header
 * @param http10 whether the client speaks HTTP/1.0, which has no chunked encoding
 * @param keepAlive whether the client wants to send further requests on the connection
 */
public record RequestHead(String method, String path, Map<String, String> headers, boolean http10, boolean keepAlive) {
    /** The value of a header; empty when it is absent. */
    public String header(String lowerCaseName) {
        return headers.getOrDefault(lowerCaseName, "");
    }

    public boolean has(String lowerCaseName) {
        return headers.containsKey(lowerCaseName);
    }
}
