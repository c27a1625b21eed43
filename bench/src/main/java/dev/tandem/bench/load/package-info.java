/**
 * Open-loop load: when requests arrive, what each of them experiences, and the metrics of a run. Entry points:
 * {@link dev.tandem.bench.load.Load}, {@link dev.tandem.bench.load.LoadResult}.
 *
 * <p>Owned by: the thread that generates the load; each {@link dev.tandem.bench.load.RequestTimes} by the thread that
 * receives its tokens.
 */
@NullMarked
package dev.tandem.bench.load;

import org.jspecify.annotations.NullMarked;
