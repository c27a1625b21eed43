package dev.tandem.cuda.gemm;

import dev.tandem.cuda.device.DeviceBuffer;
import java.util.Optional;

/** The activations that a layer's GEMMs read and write, row-major, at fixed addresses. */
public interface GemmBuffers {
    /** [rows, hidden] fp32, the residual stream. */
    DeviceBuffer residual();

    /** [rows, hidden] after the norm. */
    DeviceBuffer normed();

    /** [rows, hidden] fp32 of finished output and down projections; empty where they are added to {@link #residual}. */
    Optional<DeviceBuffer> projected();

    /** [rows, qkv] of finished GEMMs. */
    DeviceBuffer qkv();

    /** [rows, heads, headWidth], attention's output. */
    DeviceBuffer attended();

    /** [rows, 2 intermediate]. */
    DeviceBuffer gateUp();

    /** [rows, intermediate] after SwiGLU. */
    DeviceBuffer activation();
}
