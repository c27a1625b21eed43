/**
 * A model's weights in GPU memory. Entry point: {@link dev.tandem.cuda.weights.CudaWeights}.
 *
 * <p>Owned by: the executor. Next: {@code kernels}.
 */
@NullMarked
package dev.tandem.cuda.weights;

import org.jspecify.annotations.NullMarked;
