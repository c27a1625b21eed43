package dev.tandem.cuda.forward;

import dev.tandem.cuda.device.Device;
import dev.tandem.cuda.device.DeviceBuffer;
import dev.tandem.cuda.device.Resources;
import dev.tandem.cuda.device.Stream;
import dev.tandem.cuda.kernels.Kernels;
import dev.tandem.cuda.kernels.ModelShape;
import java.util.ArrayList;
import java.util.List;

/**
 * Logits of the sampled rows, and the token that each row chose last, which the next step may read.
 *
 * <p>Owned by: engine thread.
 */
public final class Logits implements AutoCloseable {
    private final Kernels kernels;
    private final List<DeviceBuffer> buffers = new ArrayList<>();
    private final DeviceBuffer values;
    private final DeviceBuffer parts;
    private final DeviceBuffer finished;
    private final DeviceBuffer chosen;

    /** @param sampled max rows that there are logits for */
    Logits(Device device, Stream stream, Kernels kernels, ModelShape shape, int sampled) {
        this.kernels = kernels;
        values = buffer(device, 4L * sampled * shape.vocabulary(), "logits");
        parts = buffer(device, 8L * sampled * Kernels.ARGMAX_PARTS, "argmax parts");
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

    /** [sampled rows] chosen tokens; -1 where logits were NaN or infinite. */
    public DeviceBuffer chosen() {
        return chosen;
    }

    public long bytes() {
        return buffers.stream().mapToLong(DeviceBuffer::bytes).sum();
    }

    /** Chooses the most probable token of each of {@code sampled} rows. */
    void chooseMostProbable(Stream stream, int sampled) {
        kernels.argmax.launch(
                stream,
                sampled,
                Kernels.ARGMAX_PARTS,
                values.address(),
                parts.address(),
                finished.address(),
                chosen.address());
    }

    @Override
    public void close() {
        Resources.closeAll(buffers);
    }
}
