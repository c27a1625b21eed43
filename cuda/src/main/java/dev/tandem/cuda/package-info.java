/**
 * The model and its KV cache on an NVIDIA GPU. Entry point: {@link dev.tandem.cuda.CudaExecutor}.
 *
 * <p>Owned by: engine thread. Next: {@code kernels} for what runs on the GPU, {@code device} for how it is driven.
 */
package dev.tandem.cuda;
