/**
 * What a client asked for, and what it is told. Entry point: {@link dev.tandem.engine.request.Request}; its mutable
 * twin inside the engine is {@link dev.tandem.engine.request.Sequence}.
 *
 * <p>Owned by: requests and events are immutable; sequences belong to the engine thread. Next: {@code queue}.
 */
package dev.tandem.engine.request;
