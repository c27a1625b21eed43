/**
 * The best output throughput that any schedule reaches on a machine, with and without offloading. Entry points:
 * {@link dev.tandem.bench.ideal.IdealCase}, {@link dev.tandem.bench.ideal.Ideal}.
 *
 * <p>All classes are immutable.
 */
@NullMarked
package dev.tandem.bench.ideal;

import org.jspecify.annotations.NullMarked;
