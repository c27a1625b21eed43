/**
 * The CUDA kernels: their sources, compiled for the GPU and the model's shape by
 * {@link dev.tandem.cuda.kernels.KernelCompiler}.
 *
 * <p>Owned by: engine thread.
 */
package dev.tandem.cuda.kernels;
