/**
 * HTTP on Netty: limits, one request at a time per connection, server-sent events with backpressure, and the news that
 * a client has gone. Entry point: {@link dev.tandem.server.http.HttpServer}.
 *
 * <p>Owned by: a connection belongs to its event loop; an {@code Exchange} to the virtual thread that serves it. Next:
 * {@code openai}.
 */
@NullMarked
package dev.tandem.server.http;

import org.jspecify.annotations.NullMarked;
