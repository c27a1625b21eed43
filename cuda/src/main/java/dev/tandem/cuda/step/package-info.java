/**
 * From a step plan to launched kernels: the inputs of its sub-batches, CUDA graphs, deadlines and the trace. Entry
 * point: {@link dev.tandem.cuda.step.StepLauncher}.
 *
 * <p>Owned by: engine thread. Next: {@code sampling}, {@code forward}.
 */
@NullMarked
package dev.tandem.cuda.step;

import org.jspecify.annotations.NullMarked;
