/**
 * Cores and threads. Entry point: {@link dev.tandem.cpu.topology.WorkerPool}.
 *
 * <p>Owned by: the executor; a pool's caller is its first worker. Next: {@code simd}.
 */
package dev.tandem.cpu.topology;
