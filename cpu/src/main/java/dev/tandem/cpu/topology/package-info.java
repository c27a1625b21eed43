/**
 * Cores, worker threads and native memory of the host. Entry point: {@link dev.tandem.cpu.topology.WorkerPool}.
 *
 * <p>Owned by: the executor, whose thread is worker 0 of its pool. Next: {@code simd}.
 */
@NullMarked
package dev.tandem.cpu.topology;

import org.jspecify.annotations.NullMarked;
