/**
 * The entry of requests: bounded arrivals from any thread, then an ordered queue. Entry points:
 * {@link dev.tandem.engine.queue.AdmissionQueue} and {@link dev.tandem.engine.queue.WaitingQueue}.
 *
 * <p>Owned by: any thread for the admission queue, the engine thread for the waiting queue. Next: {@code kv}.
 */
@NullMarked
package dev.tandem.engine.queue;

import org.jspecify.annotations.NullMarked;
