/**
 * The CUDA kernels: their sources, compiled for the GPU and the model's shape by
 * {@link dev.tandem.cuda.kernels.KernelCompiler}.
 *
 * <p>Owned by: engine thread.
 */
@NullMarked
package dev.tandem.cuda.kernels;

import org.jspecify.annotations.NullMarked;
