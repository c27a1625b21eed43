/**
 * From logits to tokens on the GPU, and what the host learns of them. Entry point:
 * {@link dev.tandem.cuda.sampling.GpuSampler}.
 *
 * <p>Owned by: engine thread. Next: {@code forward}.
 */
package dev.tandem.cuda.sampling;
