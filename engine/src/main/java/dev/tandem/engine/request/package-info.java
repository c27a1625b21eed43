/**
 * What a client asks for and the events that it receives. Entry point: {@link dev.tandem.engine.request.Request};
 * inside the engine, {@link dev.tandem.engine.request.Sequence} holds its tokens.
 *
 * <p>Owned by: requests and events are immutable; sequences belong to the engine thread. Next: {@code queue}.
 */
@NullMarked
package dev.tandem.engine.request;

import org.jspecify.annotations.NullMarked;
