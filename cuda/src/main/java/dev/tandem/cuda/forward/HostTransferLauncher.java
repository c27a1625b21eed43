package dev.tandem.cuda.forward;

import dev.tandem.cuda.device.Device;
import dev.tandem.cuda.device.Event;
import dev.tandem.cuda.device.Resources;
import dev.tandem.cuda.device.Stream;
import dev.tandem.cuda.kernels.Kernels;
import dev.tandem.cuda.kernels.ModelShape;

/**
 * Launches the kernels that transfer host tokens between GPU and host (host_transfer.cu). Those that run beside a step
 * have a stream of their own, of the highest priority, because else they start only when the step's kernels leave room
 * (ADR 107).
 *
 * <p>Owned by: engine thread.
 */
public final class HostTransferLauncher implements AutoCloseable {
    /** Max thread blocks that wait for same-layer tokens; each takes its tokens in turn. Not tuned (ADR 122). */
    static final int MAX_RECEIVERS = 16;

    private final Kernels kernels;
    private final long hostTokens;
    private final int layers;
    /** Bytes of a row of attention output. */
    private final long attendedBytes;

    private final Stream link;
    private final Event before;
    private final Event after;

    /** @param hostTokens address of the host link's memory; 0 without attention threads */
    public HostTransferLauncher(Device device, Kernels kernels, ModelShape shape, long hostTokens) {
        this.kernels = kernels;
        this.hostTokens = hostTokens;
        this.layers = shape.config().layers();
        this.attendedBytes = (long) shape.queries() * shape.type().bytes();
        this.link = device.urgentStream("in-flight tokens");
        this.before = device.event();
        this.after = device.event();
    }

    /**
     * Prepares a step that resumes in-flight tokens. Its first wait may come before its first send, and the last
     * transfer may have been captured in a graph; a stream must not wait for an event that was last recorded in a
     * capture.
     */
    void beginResuming() {
        link.record(after);
    }

    /** Launches the transfer kernel beside later work of {@code stream}. */
    void transferBeside(Stream stream) {
        stream.record(before);
        link.waitFor(before);
        kernels.transfer.launch(link, 1, 1, hostTokens);
        link.record(after);
    }

    /** For tests: launches the transfer kernel in the step's own stream, where no later kernel can end it. */
    void transferAlone(Stream stream) {
        kernels.transfer.launch(stream, 1, 1, hostTokens);
    }

    /**
     * Sends in-flight tokens that leave the batch, in a step that resumes some, beside the step's next kernels.
     *
     * @param rows of in-flight tokens in the QKV projection
     */
    void sendInFlight(Stream stream, int rows, int layer) {
        stream.record(before);
        link.waitFor(before);
        kernels.sendInFlight.launch(link, 1, 1, hostTokens, layer, rows);
        link.record(after);
    }

    /**
     * Waits for the attention of the resumed tokens that stand at a layer, and has tokens return to the rows that are
     * computed after it. It runs after all sends, because both change the ring counters.
     *
     * @param extent after the layer's attention
     * @param subBatch 0 or 1
     */
    void receiveInFlight(Stream stream, Activations a, StepInputs step, Extent extent, int subBatch, int layer) {
        join(stream);
        long row = extent.inFlight() == 0 ? 0 : extent.firstSlot();
        kernels.receiveInFlight.launch(
                stream,
                1,
                1,
                hostTokens,
                step.resumed(),
                extent.resumed(),
                layer,
                extent.slots(),
                subBatch * layers + layer,
                extent.hostTokens() == 0 ? 1 : 0,
                a.attended().address() + row * attendedBytes);
    }

    /**
     * Waits for the attention of the sub-batch's host tokens and copies it to their rows.
     *
     * @param subBatch 0 or 1
     */
    void receive(Stream stream, Activations a, StepInputs step, Extent extent, int subBatch, int layer) {
        kernels.receiveHostTokens.launch(
                stream,
                Math.min(extent.hostTokens(), MAX_RECEIVERS) + 1,
                1,
                step.header(),
                step.slots(0), // host tokens are in the slots of all groups
                hostTokens,
                layer,
                subBatch * layers + layer,
                a.attended().address());
    }

    /** Makes {@code stream} wait for the last transfer or send. */
    void join(Stream stream) {
        stream.waitFor(after);
    }

    @Override
    public void close() {
        Resources.closeAll(link, before, after);
    }
}
