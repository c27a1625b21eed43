/**
 * Workloads, measurements of an engine, and its simulation. Entry points: {@link dev.tandem.bench.Workload},
 * {@link dev.tandem.bench.ThroughputRun}.
 *
 * <p>Owned by: the thread that measures; recorders are called on the engine thread.
 */
package dev.tandem.bench;
