/**
 * The way into the engine: bounded arrivals from any thread, then an ordered wait. Entry points:
 * {@link dev.tandem.engine.queue.AdmissionQueue} and {@link dev.tandem.engine.queue.WaitingQueue}.
 *
 * <p>Owned by: the admission queue is shared, the waiting queue is the engine thread's. Next: {@code kv}.
 */
package dev.tandem.engine.queue;
