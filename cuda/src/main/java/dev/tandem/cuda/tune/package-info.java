/**
 * Measures which method computes each GEMM fastest, what steps cost, and what the CPU's attention costs. Entry points:
 * {@link dev.tandem.cuda.tune.GemmAutotuner} at the start, {@link dev.tandem.cuda.tune.CudaTimings} and
 * {@link dev.tandem.cuda.tune.CudaProfiler} for benchmarks.
 *
 * <p>Owned by: the executor, before it serves. Next: {@code step}.
 */
@NullMarked
package dev.tandem.cuda.tune;

import org.jspecify.annotations.NullMarked;
