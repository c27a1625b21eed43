/**
 * A model's weights in GPU memory. Entry point: {@link dev.tandem.cuda.weights.CudaWeights}.
 *
 * <p>Owned by: the executor. Next: {@code kernels}.
 */
package dev.tandem.cuda.weights;
