package dev.tandem.cuda.sampling;

import dev.tandem.cuda.device.Stream;
import dev.tandem.cuda.forward.Logits;
import dev.tandem.cuda.kernels.Kernels;
import dev.tandem.cuda.kernels.ModelShape;

/**
 * From logits to tokens on the GPU: biases and penalties, the most probable token or a draw, log-probabilities, and
 * what the host is told of them (sample.cu). Enqueues and returns.
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

    /** Biases, penalties and forbidden tokens, before {@link #sample}; once. */
    public void adjust(Stream stream, SamplingInputs step) {
        kernels.adjust.launch(
                stream, step.adjustedCount(), 1, logits.values().address(), step.adjusted(), step.adjustments());
    }

    /**
     * Log-probabilities of the step's draws that want them, after {@link #sample}, and of in-flight tokens.
     *
     * @param slots 0 when none wants any
     * @param out {@link ReportedLogprobs}
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
     * Replaces the tokens of the first {@code draws} draws of the step, and those of in-flight tokens that are drawn.
     *
     * @param slots 0 when none is
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
     * What the step tells the host, after {@link #sample}: {@code out} holds tokens, then flights that landed;
     * {@code stamps} when layers were, with slots, and when the step reported, then when it waited for the host tokens
     * of {@code passes}.
     */
    public void report(Stream stream, int sampled, int slots, int passes, long out, long stamps) {
        kernels.report.launch(
                stream, 1, 1, logits.chosen().address(), sampled, hostTokens, layers, slots, passes, out, stamps);
    }
}
