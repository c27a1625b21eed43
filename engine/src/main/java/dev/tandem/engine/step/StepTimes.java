package dev.tandem.engine.step;

/**
 * Where a step's time went, in nanoseconds over all layers; 0 where there was no such work, or the executor does not
 * time it. Components that overlap may add up to more than the step.
 *
 * @param linear pre- and post-projections of all rows
 * @param prefillAttention of rows that do not decode
 * @param gpuAttention of decode rows read by the GPU from its own memory
 * @param cpuAttention of decode rows read by the CPU, those in flight included
 * @param transfer swaps
 * @param preLayer embedding
 * @param postLayer logits and sampling
 */
public record StepTimes(
        long linear,
        long prefillAttention,
        long gpuAttention,
        long cpuAttention,
        long transfer,
        long preLayer,
        long postLayer) {
    /** Nothing was measured. */
    public static final StepTimes NONE = new StepTimes(0, 0, 0, 0, 0, 0, 0);
}
