package dev.tandem.engine.step;

/**
 * Where a step's time went, in nanoseconds over all layers.
 *
 * <p>A component is 0 when there was no such work, or when the executor does not time it. Components that overlap may
 * add up to more than the step.
 *
 * @param linear GEMMs before and after attention, of all tokens
 * @param prefillAttention attention of prefill tokens
 * @param gpuAttention decode attention that the GPU computes from GPU blocks
 * @param cpuAttention decode attention that the CPU computes, that of in-flight tokens included; beside a GPU the mean
 *     time that its threads are at work
 * @param subBatchAttention decode attention that the CPU computes for same-layer tokens, in each layer and sub-batch
 *     from the first one's start to the last one's end
 * @param transfer swaps
 * @param preLayer embedding
 * @param postLayer logits and sampling
 * @param hostWait the GPU's wait for decode attention on the CPU, with the copy of its results
 */
public record StepTimes(
        long linear,
        long prefillAttention,
        long gpuAttention,
        long cpuAttention,
        long subBatchAttention,
        long transfer,
        long preLayer,
        long postLayer,
        long hostWait) {
    /** Nothing was measured. */
    public static final StepTimes NONE = ofHost(0, 0, 0);

    /** The times of an executor that measures all components, one after the other, and where nothing waits. */
    public StepTimes(
            long linear,
            long prefillAttention,
            long gpuAttention,
            long cpuAttention,
            long transfer,
            long preLayer,
            long postLayer) {
        this(linear, prefillAttention, gpuAttention, cpuAttention, cpuAttention, transfer, preLayer, postLayer, 0);
    }

    /** The times of an executor that measures the host's part alone. */
    public static StepTimes ofHost(long cpuAttention, long subBatchAttention, long hostWait) {
        return new StepTimes(0, 0, 0, cpuAttention, subBatchAttention, 0, 0, 0, hostWait);
    }
}
