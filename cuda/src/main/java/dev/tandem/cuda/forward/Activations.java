package dev.tandem.cuda.forward;

import dev.tandem.cuda.device.Device;
import dev.tandem.cuda.device.DeviceBuffer;
import dev.tandem.cuda.device.Resources;
import dev.tandem.cuda.device.Stream;
import dev.tandem.cuda.gemm.GemmBuffers;
import dev.tandem.cuda.gemm.GemmPlan;
import dev.tandem.cuda.kernels.DecoderVariant;
import dev.tandem.cuda.kernels.ModelShape;
import dev.tandem.model.config.QkNorm;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/**
 * A sub-batch's activations between kernels, at fixed addresses.
 *
 * @param residual [rows, hidden] fp32, the residual stream
 * @param normed [rows, hidden]
 * @param qkv [rows, qkv] result of the QKV projection
 * @param queries [rows, heads, headWidth]
 * @param attended [rows, heads, headWidth] attention output
 * @param gateUp [rows, 2 intermediate]
 * @param activation [rows, intermediate]
 * @param angles [rows, rotations, headDim / 2] fp32 pairs of cosine and sine
 * @param projected [rows, hidden] fp32, finished output and down projections before their norm; empty where these have
 *     no norm
 * @param qkScales [rows, 2] fp32, factors of the norms over all heads of q and of k; empty where the model has none
 */
public record Activations(
        DeviceBuffer residual,
        DeviceBuffer normed,
        DeviceBuffer qkv,
        DeviceBuffer queries,
        DeviceBuffer attended,
        DeviceBuffer gateUp,
        DeviceBuffer activation,
        DeviceBuffer angles,
        Optional<DeviceBuffer> projected,
        Optional<DeviceBuffer> qkScales)
        implements GemmBuffers, AutoCloseable {

    /** @param maxRows max rows of a step; rounded up to the rows that GEMMs compute */
    static Activations of(Device device, ModelShape shape, int maxRows, String label) {
        int rows = GemmPlan.roundUp(Math.max(maxRows, GemmPlan.ROW_STEP));
        long half = (long) shape.type().bytes() * rows;
        DecoderVariant variant = shape.variant();
        int rotations = variant.rotations().size();
        return new Activations(
                device.allocate(4L * rows * shape.hidden(), "the residual stream" + label),
                device.allocate(half * shape.hidden(), "normed rows" + label),
                device.allocate(half * shape.qkv(), "q, k and v" + label),
                device.allocate(half * shape.queries(), "queries" + label),
                device.allocate(half * shape.queries(), "attention results" + label),
                device.allocate(half * 2 * shape.intermediate(), "gate and up" + label),
                device.allocate(half * shape.intermediate(), "activations" + label),
                device.allocate(4L * rows * rotations * shape.config().headDim(), "rotation angles" + label),
                variant.norms().onOutputs()
                        ? Optional.of(device.allocate(4L * rows * shape.hidden(), "projections" + label))
                        : Optional.empty(),
                variant.qkNorm() == QkNorm.WHOLE_ROW
                        ? Optional.of(device.allocate(4L * rows * 2, "scales of q and k" + label))
                        : Optional.empty());
    }

    private List<DeviceBuffer> all() {
        List<DeviceBuffer> all =
                new ArrayList<>(List.of(residual, normed, qkv, queries, attended, gateUp, activation, angles));
        projected.ifPresent(all::add);
        qkScales.ifPresent(all::add);
        return all;
    }

    /**
     * Fills all buffers with zeros. GEMMs compute rows beyond a step's own, whose values are never used but could slow
     * the GPU down.
     */
    public void clear(Stream stream) {
        all().forEach(buffer -> stream.fill(buffer, 0));
    }

    long bytes() {
        return all().stream().mapToLong(DeviceBuffer::bytes).sum();
    }

    @Override
    public void close() {
        Resources.closeAll(all());
    }
}
