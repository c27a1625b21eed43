package dev.tandem.cuda.forward;

import dev.tandem.cuda.device.Device;
import dev.tandem.cuda.device.DeviceBuffer;
import dev.tandem.cuda.device.Resources;
import dev.tandem.cuda.device.Stream;
import dev.tandem.cuda.kernels.KernelConstants;
import dev.tandem.cuda.kernels.Kernels;
import dev.tandem.cuda.kernels.ModelShape;
import java.util.ArrayList;
import java.util.List;

/**
 * The logits and sampled tokens of a step's sampled rows; the next step may read the tokens.
 *
 * <p>Owned by: engine thread.
 */
public final class Logits implements AutoCloseable {
    private final Kernels kernels;
    private final List<DeviceBuffer> buffers = new ArrayList<>();
    private final DeviceBuffer values;
    private final DeviceBuffer partials;
    private final DeviceBuffer finished;
    private final DeviceBuffer chosen;
    private final int rows;

    /** @param sampled max rows with logits */
    Logits(Device device, Stream stream, Kernels kernels, ModelShape shape, int sampled) {
        this.kernels = kernels;
        this.rows = sampled;
        values = buffer(device, 4L * sampled * shape.vocabulary(), "logits");
        partials = buffer(device, 8L * sampled * KernelConstants.ARGMAX_PARTS, "argmax partial results");
        finished = buffer(device, 4L * sampled, "argmax counters");
        chosen = buffer(device, 4L * sampled, "sampled tokens");
        buffers.forEach(buffer -> stream.fill(buffer, 0));
    }

    private DeviceBuffer buffer(Device device, long bytes, String label) {
        DeviceBuffer buffer = device.allocate((bytes + 255) / 256 * 256, label);
        buffers.add(buffer);
        return buffer;
    }

    /** [sampled rows, vocabulary] fp32. */
    public DeviceBuffer values() {
        return values;
    }

    /** Max rows. */
    int rows() {
        return rows;
    }

    /** [sampled rows] sampled tokens; -1 where logits are NaN or infinite. */
    public DeviceBuffer chosen() {
        return chosen;
    }

    public long bytes() {
        return buffers.stream().mapToLong(DeviceBuffer::bytes).sum();
    }

    /** Launches the argmax of {@code sampled} rows. */
    void argmax(Stream stream, int sampled) {
        kernels.argmax.launch(
                stream,
                sampled,
                KernelConstants.ARGMAX_PARTS,
                values.address(),
                partials.address(),
                finished.address(),
                chosen.address());
    }

    /** Launches the scores of prompts' rows, which have the first logits. */
    void score(Stream stream, ScoredRows scored) {
        kernels.score.launch(stream, scored.count(), 1, values.address(), scored.targets(), scored.scores());
    }

    @Override
    public void close() {
        Resources.closeAll(buffers);
    }
}
