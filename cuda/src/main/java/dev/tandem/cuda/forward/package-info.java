/**
 * The decoder as a sequence of kernels, and one launcher for each family of kernels. Entry point:
 * {@link dev.tandem.cuda.forward.CudaForward}.
 *
 * <p>Owned by: engine thread. Next: {@code gemm}, {@code kv}.
 */
@NullMarked
package dev.tandem.cuda.forward;

import org.jspecify.annotations.NullMarked;
