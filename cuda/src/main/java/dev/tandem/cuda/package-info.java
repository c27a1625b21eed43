/**
 * The model and its KV cache on an NVIDIA GPU. Entry point: {@link dev.tandem.cuda.CudaExecutor}.
 *
 * <p>Each package knows only those after it: tune, step, sampling, forward, gemm, kv, hostattention, weights, kernels,
 * device, ffi.
 *
 * <p>Owned by: engine thread. Next: {@code step}, which launches steps.
 */
@NullMarked
package dev.tandem.cuda;

import org.jspecify.annotations.NullMarked;
