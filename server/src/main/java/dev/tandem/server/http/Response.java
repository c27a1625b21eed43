package dev.tandem.server.http;

import java.util.Map;

/**
 * A complete HTTP response.
 *
 * @param headers those besides Content-Type and Content-Length
 */
public record Response(int status, String contentType, byte[] content, Map<String, String> headers) {
    public static Response json(int status, byte[] content) {
        return new Response(status, "application/json", content, Map.of());
    }

    /** A response without a body. */
    public static Response empty(int status, Map<String, String> headers) {
        return new Response(status, "", new byte[0], headers);
    }
}
