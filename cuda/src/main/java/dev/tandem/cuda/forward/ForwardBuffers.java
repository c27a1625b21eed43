package dev.tandem.cuda.forward;

import dev.tandem.cuda.device.Device;
import dev.tandem.cuda.device.DeviceBuffer;
import dev.tandem.cuda.device.PinnedBuffer;
import dev.tandem.cuda.device.Resources;
import dev.tandem.cuda.device.Stream;
import dev.tandem.cuda.gemm.GemmPlan;
import dev.tandem.cuda.kernels.DecoderVariant;
import dev.tandem.cuda.kernels.KernelConstants;
import dev.tandem.cuda.kernels.Kernels;
import dev.tandem.cuda.kernels.ModelShape;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/**
 * GPU memory that the forward pass writes besides KV: activations of one or two sub-batches, logits, and partial
 * results of attention.
 *
 * <p>Owned by: the executor.
 */
public final class ForwardBuffers implements AutoCloseable {
    private final List<DeviceBuffer> buffers = new ArrayList<>();
    private final Activations first;
    private final Optional<Activations> second;
    private final Logits logits;
    private final DeviceBuffer frequencies;
    private final DeviceBuffer decodePartials;
    private final DeviceBuffer decodeNorms;
    private final DeviceBuffer prefillPartials;
    private final DeviceBuffer prefillFinished;

    public ForwardBuffers(Device device, Stream stream, Kernels kernels, SmPartition partition, Rows rows) {
        ModelShape shape = partition.shape();
        first = Activations.of(device, shape, rows.first(), "");
        second = rows.second() > 0
                ? Optional.of(Activations.of(device, shape, rows.second(), " of the second sub-batch"))
                : Optional.empty();
        float[] table = shape.variant().rotationTable(shape.config().headDim());
        frequencies = buffer(device, 4L * table.length, "rotation frequencies");
        logits = new Logits(
                device, stream, kernels, shape, GemmPlan.roundUp(Math.max(rows.sampled(), GemmPlan.ROW_STEP)));
        long quads = (long) partition.attentionBlocks() * shape.config().group() * shape.headWidth() / 4;
        decodePartials = buffer(device, 16 * quads, "partial results of decode attention");
        decodeNorms = buffer(device, 8 * quads, "sums of weights of decode attention");
        prefillPartials = buffer(
                device,
                4L * SmPartition.MAX_PARTIALS * KernelConstants.PREFILL_THREADS * shape.partialValues(),
                "partial results of prefill attention");
        prefillFinished = buffer(device, 4L * SmPartition.MAX_PARTIALS, "counters of prefill attention");
        first.clear(stream);
        second.ifPresent(activations -> activations.clear(stream));
        buffers.forEach(buffer -> stream.fill(buffer, 0));
        stream.fill(decodePartials, KernelConstants.UNPUBLISHED);
        stream.fill(decodeNorms, KernelConstants.UNPUBLISHED);
        try (PinnedBuffer staging = device.pinned(4L * table.length, "rotation frequencies")) {
            MemorySegment.copy(table, 0, staging.memory(), ValueLayout.JAVA_FLOAT, 0, table.length);
            stream.upload(frequencies, 0, staging.memory(), 4L * table.length);
            stream.synchronise();
        }
    }

    /**
     * Max rows of steps.
     *
     * @param first of a step's first sub-batch
     * @param second of its second; 0 where steps have one
     * @param sampled of both sub-batches together
     */
    public record Rows(int first, int second, int sampled) {}

    private DeviceBuffer buffer(Device device, long bytes, String label) {
        DeviceBuffer buffer = device.allocate((bytes + 255) / 256 * 256, label);
        buffers.add(buffer);
        return buffer;
    }

    /** Activations of a sub-batch, 0 or 1. */
    public Activations activations(int subBatch) {
        return subBatch == 0 ? first : second.orElseThrow();
    }

    public Logits logits() {
        return logits;
    }

    /** {@link DecoderVariant#rotationTable}. */
    DeviceBuffer frequencies() {
        return frequencies;
    }

    /** [thread blocks][group, headWidth] fp32 of decode attention. */
    DeviceBuffer decodePartials() {
        return decodePartials;
    }

    /** [thread blocks][group, headWidth / 4] pairs of a maximum and a sum of weights. */
    DeviceBuffer decodeNorms() {
        return decodeNorms;
    }

    /** [{@link SmPartition#MAX_PARTIALS}] partial results of tiles of prefill attention (tiles.cu). */
    DeviceBuffer prefillPartials() {
        return prefillPartials;
    }

    /** [{@link SmPartition#MAX_PARTIALS}] counters of the published partial results of a tile. */
    DeviceBuffer prefillFinished() {
        return prefillFinished;
    }

    public long bytes() {
        return buffers.stream().mapToLong(DeviceBuffer::bytes).sum()
                + logits.bytes()
                + first.bytes()
                + second.map(Activations::bytes).orElse(0L);
    }

    @Override
    public void close() {
        List<AutoCloseable> all = new ArrayList<>(List.of(logits, first));
        second.ifPresent(all::add);
        all.addAll(buffers);
        Resources.closeAll(all);
    }
}
