package dev.tandem.cuda;

import dev.tandem.cuda.device.Device;
import dev.tandem.cuda.device.DeviceBuffer;
import dev.tandem.cuda.device.Resources;
import dev.tandem.cuda.device.Stream;
import dev.tandem.cuda.kernels.Kernels;
import java.util.ArrayList;
import java.util.List;

/**
 * From logits to tokens on the GPU: biases and penalties, the most probable token or a draw, log-probabilities, and
 * what the host is told of them (sample.cu). Enqueues and returns.
 *
 * <p>Owned by: engine thread.
 */
final class GpuSampler implements AutoCloseable {
    private final Kernels kernels;
    private final int layers;
    private final List<DeviceBuffer> buffers = new ArrayList<>();
    private final DeviceBuffer logits;
    private final DeviceBuffer argmaxParts;
    private final DeviceBuffer argmaxFinished;
    private final DeviceBuffer chosen;
    private long hostTokens;

    /** @param sampled most rows that there are logits for */
    GpuSampler(Device device, Stream stream, Kernels kernels, ModelShape shape, int sampled) {
        this.kernels = kernels;
        this.layers = shape.config().layers();
        logits = buffer(device, 4L * sampled * shape.vocabulary(), "logits");
        argmaxParts = buffer(device, 8L * sampled * Kernels.ARGMAX_PARTS, "argmax parts");
        argmaxFinished = buffer(device, 4L * sampled, "argmax counters");
        chosen = buffer(device, 4L * sampled, "sampled tokens");
        buffers.forEach(buffer -> stream.fill(buffer, 0));
    }

    private DeviceBuffer buffer(Device device, long bytes, String label) {
        DeviceBuffer buffer = device.allocate((bytes + 255) / 256 * 256, label);
        buffers.add(buffer);
        return buffer;
    }

    /** Says where in-flight tokens are; before the first step with slots. */
    void hostTokens(long address) {
        hostTokens = address;
    }

    /** [sampled rows, vocabulary] fp32. */
    DeviceBuffer logits() {
        return logits;
    }

    /** Address of the chosen tokens, in the order of the sampled rows. */
    long chosen() {
        return chosen.address();
    }

    long bytes() {
        return buffers.stream().mapToLong(DeviceBuffer::bytes).sum();
    }

    /** Chooses the most probable token of each of {@code sampled} rows. */
    void mostProbable(Stream stream, int sampled) {
        kernels.argmax.launch(
                stream,
                sampled,
                Kernels.ARGMAX_PARTS,
                logits.address(),
                argmaxParts.address(),
                argmaxFinished.address(),
                chosen.address());
    }

    /** Biases, penalties and forbidden tokens, before {@link #sample}; once. */
    void adjust(Stream stream, StepBuffer step) {
        kernels.adjust.launch(stream, step.adjustedCount(), 1, logits.address(), step.adjusted(), step.adjustments());
    }

    /**
     * Log-probabilities of the step's draws that want them, after {@link #sample}, and of in-flight tokens.
     *
     * @param slots 0 when none wants any
     * @param out {@link ReportedLogprobs}
     */
    void logprobs(Stream stream, StepBuffer step, int draws, int slots, int firstSlotSample, long out) {
        kernels.logprobs.launch(
                stream,
                draws + slots,
                1,
                logits.address(),
                step.draws(),
                chosen.address(),
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
    void sample(Stream stream, StepBuffer step, int draws, int slots, int sampled) {
        kernels.sample.launch(
                stream,
                draws + slots,
                1,
                logits.address(),
                step.draws(),
                chosen.address(),
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
    void report(Stream stream, int sampled, int slots, int passes, long out, long stamps) {
        kernels.report.launch(stream, 1, 1, chosen.address(), sampled, hostTokens, layers, slots, passes, out, stamps);
    }

    @Override
    public void close() {
        Resources.closeAll(buffers);
    }
}
