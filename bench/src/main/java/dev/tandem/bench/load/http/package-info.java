/**
 * An open-loop load over HTTP, against any server with OpenAI's API. Entry point:
 * {@link dev.tandem.bench.load.http.HttpLoad}.
 *
 * <p>Owned by: the thread that runs the load; each request by a virtual thread of its own.
 */
@NullMarked
package dev.tandem.bench.load.http;

import org.jspecify.annotations.NullMarked;
