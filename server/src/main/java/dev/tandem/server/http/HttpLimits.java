package dev.tandem.server.http;

import java.time.Duration;

/**
 * Limits on the memory, connections and time that clients may use.
 *
 * @param maxBodyBytes larger bodies are answered with 413
 * @param maxHeaderBytes longer request lines are answered with 414, larger headers with 431
 * @param maxBufferedBytes bytes of all bodies in memory; a request that exceeds them is answered with 503
 * @param maxConnections further connections are answered with 503
 * @param headerTimeout max time from the first byte of a request to the end of its headers
 * @param bodyTimeout max time from the end of the headers to the end of the body
 * @param idleTimeout max time between requests
 * @param writeTimeout max time in which the client reads none of the data that waits for it
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
