package dev.tandem.cuda.sampling;

import dev.tandem.cuda.device.Stream;
import dev.tandem.cuda.forward.Logits;
import dev.tandem.cuda.kernels.KernelConstants;
import dev.tandem.cuda.kernels.Kernels;
import dev.tandem.cuda.kernels.ModelShape;

/**
 * Launches the kernels that sample tokens from logits on the GPU (sample.cu): biases, penalties and bitmasks, argmax or
 * a random draw, log-probabilities, and the report to the host. Its methods return without waiting.
 *
 * <p>Owned by: engine thread.
 */
public final class GpuSampler {
    private final Kernels kernels;
    private final int layers;
    private final Logits logits;
    private final long hostTokens;

    /** @param hostTokens address of the host link's memory; 0 without attention threads */
    public GpuSampler(Kernels kernels, ModelShape shape, Logits logits, long hostTokens) {
        this.kernels = kernels;
        this.layers = shape.config().layers();
        this.logits = logits;
        this.hostTokens = hostTokens;
    }

    /** Applies biases, penalties and forbidden tokens to the logits; once per step, before {@link #sample}. */
    public void adjust(Stream stream, SamplingInputs step) {
        kernels.adjust.launch(
                stream, step.adjustedCount(), 1, logits.values().address(), step.adjusted(), step.adjustments());
    }

    /** Excludes the tokens that grammars do not allow; after {@link #adjust}, before {@link #sample}. */
    public void mask(Stream stream, Bitmasks masks) {
        kernels.maskLogits.launch(
                stream,
                masks.count(),
                KernelConstants.ARGMAX_PARTS,
                logits.values().address(),
                masks.rows(),
                masks.bitmasks());
    }

    /**
     * Computes the requested log-probabilities of the step's draws and of in-flight tokens, after {@link #sample}.
     *
     * @param slots 0 when no in-flight token's request wants any
     * @param out address in {@link ReportedLogprobs}
     */
    public void logprobs(Stream stream, SamplingInputs step, int draws, int slots, int firstSlotSample, long out) {
        kernels.logprobs.launch(
                stream,
                draws + slots,
                1,
                logits.values().address(),
                step.draws(),
                logits.chosen().address(),
                draws,
                firstSlotSample,
                hostTokens,
                layers,
                out);
    }

    /**
     * Replaces the argmax tokens of the step's {@code draws} random draws, and of in-flight tokens that are drawn at
     * random.
     *
     * @param slots 0 when no in-flight token is
     */
    public void sample(Stream stream, SamplingInputs step, int draws, int slots, int sampled) {
        kernels.sample.launch(
                stream,
                draws + slots,
                1,
                logits.values().address(),
                step.draws(),
                logits.chosen().address(),
                draws,
                sampled - slots,
                hostTokens,
                layers);
    }

    /**
     * Reports the step to the host, after {@link #sample}.
     *
     * @param passes sub-batches that wait for host tokens
     * @param out receives the sampled tokens, then per slot the host token that passed the last layer, or -1
     * @param stamps receives the start of each layer with slots, the time of the report, and the waits for host tokens
     */
    public void report(Stream stream, int sampled, int slots, int passes, long out, long stamps) {
        kernels.report.launch(
                stream, 1, 1, logits.chosen().address(), sampled, hostTokens, layers, slots, passes, out, stamps);
    }
}
