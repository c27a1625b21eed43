/**
 * What runs on the GPU: sources, compiled for the GPU at hand and the model's shape by
 * {@link dev.tandem.cuda.kernels.KernelCompiler}, and the GEMMs of cublasLt.
 *
 * <p>Owned by: engine thread.
 */
package dev.tandem.cuda.kernels;
