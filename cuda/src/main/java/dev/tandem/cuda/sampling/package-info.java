/**
 * Samples tokens from logits on the GPU and reports them to the host. Entry point:
 * {@link dev.tandem.cuda.sampling.GpuSampler}.
 *
 * <p>Owned by: engine thread. Next: {@code forward}.
 */
@NullMarked
package dev.tandem.cuda.sampling;

import org.jspecify.annotations.NullMarked;
