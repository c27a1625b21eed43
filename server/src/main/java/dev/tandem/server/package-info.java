/**
 * The server around the engine: HTTP, OpenAI's API and metrics. Entry point: {@link dev.tandem.server.TandemServer}.
 *
 * <p>Owned by: event loops move bytes, one virtual thread serves each request. Next: {@code http}, {@code openai}.
 */
@NullMarked
package dev.tandem.server;

import org.jspecify.annotations.NullMarked;
