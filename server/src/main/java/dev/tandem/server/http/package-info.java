/**
 * HTTP on Netty: limits, one request at a time per connection, server-sent events with backpressure, and detection of
 * clients that disconnect. Entry point: {@link dev.tandem.server.http.HttpServer}.
 *
 * <p>Owned by: a connection belongs to its event loop; an {@code Exchange} to the virtual thread that serves it. Next:
 * {@code openai}.
 */
@NullMarked
package dev.tandem.server.http;

import org.jspecify.annotations.NullMarked;
