package dev.tandem.cuda.gemm;

import dev.tandem.cuda.device.DeviceBuffer;
import dev.tandem.cuda.device.TensorMap;
import java.util.Optional;

/**
 * A GEMM with its operands, {@code out[rows][n] = x[rows][depth] weights[n][depth]^T}, by whichever method it is
 * computed.
 *
 * @param weights address of [n, depth] in the model's type
 * @param map tensor map of the weights; empty on GPUs without Tensor Memory Accelerator
 * @param x [rows, depth] in the model's type
 * @param out [rows, n] of finished results
 * @param result what finished results are, and whether they are added to {@code out}
 */
public record Gemm(
        long weights, Optional<TensorMap> map, Shape shape, DeviceBuffer x, DeviceBuffer out, Result result) {
    /**
     * The shape of the weights.
     *
     * @param n weight rows, which is the width of the result
     * @param depth weight columns, which is the width of x
     */
    public record Shape(int n, int depth) {}

    /** What a finished GEMM leaves. */
    public enum Result {
        /** 16-bit values. */
        NARROW,
        /** fp32 values. */
        WIDE,
        /** fp32 values, added to the output's. */
        WIDE_ADDED
    }
}
