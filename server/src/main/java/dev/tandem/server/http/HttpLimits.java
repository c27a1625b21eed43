package dev.tandem.server.http;

import java.time.Duration;

/**
 * What one client, and all of them together, may take of the server.
 *
 * @param maxBodyBytes larger bodies are answered 413
 * @param maxHeaderBytes longer request lines are answered 414, larger headers 431
 * @param maxBufferedBytes of all bodies in memory; a request beyond is answered 503
 * @param maxConnections further connections are answered 503
 * @param headerTimeout from the first byte of a request to the end of its headers
 * @param bodyTimeout from the end of the headers to the end of the body
 * @param idleTimeout between requests
 * @param writeTimeout in which a client which is sent something must read some of it
 */
public record HttpLimits(
        int maxBodyBytes,
        int maxHeaderBytes,
        long maxBufferedBytes,
        int maxConnections,
        Duration headerTimeout,
        Duration bodyTimeout,
        Duration idleTimeout,
        Duration writeTimeout) {}
