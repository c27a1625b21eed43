/**
 * Workloads, measurements of an engine, and its simulation. Entry points: {@link dev.tandem.bench.Workload},
 * {@link dev.tandem.bench.ThroughputRun}.
 *
 * <p>Owned by: the thread that measures; recorders are called on the engine thread.
 */
@NullMarked
package dev.tandem.bench;

import org.jspecify.annotations.NullMarked;
