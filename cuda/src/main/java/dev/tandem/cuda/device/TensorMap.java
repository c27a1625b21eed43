package dev.tandem.cuda.device;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.tandem.model.config.DataType;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Arrays;

/**
 * A tensor map of row-major 16-bit values for the Tensor Memory Accelerator (compute capability 9.0 and later). Boxes
 * have 64 columns and are swizzled by 128 bytes; values outside the matrix read as zero.
 */
public final class TensorMap {
    /** {@code CUtensorMapDataType}, {@code CUtensorMapSwizzle} and {@code CUtensorMapL2promotion}, cuda.h. */
    private static final int FLOAT16 = 6;

    private static final int BFLOAT16 = 9;
    private static final int SWIZZLE_128_BYTES = 3;
    private static final int PROMOTE_128_BYTES = 2;
    private static final int BOX_COLUMNS = 64;
    /** Rows per strip of gemm_wgmma.cu. */
    private static final int PAIRED_ROWS = 128;
    /** {@code CUtensorMap}. */
    static final int BYTES = 128;

    private final MemorySegment memory;

    private TensorMap(MemorySegment memory) {
        this.memory = memory;
    }

    /**
     * A matrix.
     *
     * @param boxRows rows per copy
     */
    public static TensorMap of(Device device, long address, long rows, long columns, int boxRows, DataType type) {
        return new TensorMap(encode(
                device,
                address,
                new long[] {columns, rows},
                new long[] {columns},
                new int[] {BOX_COLUMNS, boxRows},
                type));
    }

    /**
     * The tensor map of two matrices, one behind the other. A copy has {@link #PAIRED_ROWS} rows: 8 of the first and 8
     * of the second in turns.
     *
     * @param rows of each, a multiple of 8
     */
    public static TensorMap pairs(Device device, long address, long rows, long columns, DataType type) {
        long[] sizes = {columns, 8, 2, rows / 8};
        long[] strides = {columns, rows * columns, 8 * columns};
        return new TensorMap(
                encode(device, address, sizes, strides, new int[] {BOX_COLUMNS, 8, 2, PAIRED_ROWS / 16}, type));
    }

    /**
     * @param sizes of the dimensions, the innermost first
     * @param strides of all dimensions except the innermost, in values
     */
    private static MemorySegment encode(
            Device device, long address, long[] sizes, long[] strides, int[] box, DataType type) {
        MemorySegment memory = Arena.ofAuto().allocate(BYTES, 64);
        try (Arena arena = Arena.ofConfined()) {
            long[] bytes =
                    Arrays.stream(strides).map(stride -> stride * type.bytes()).toArray();
            int[] steps = new int[sizes.length];
            Arrays.fill(steps, 1);
            device.driver()
                    .cuTensorMapEncodeTiled
                    .call(
                            memory,
                            type == DataType.BFLOAT16 ? BFLOAT16 : FLOAT16,
                            sizes.length,
                            address,
                            arena.allocateFrom(JAVA_LONG, sizes),
                            arena.allocateFrom(JAVA_LONG, bytes),
                            arena.allocateFrom(JAVA_INT, box),
                            arena.allocateFrom(JAVA_INT, steps),
                            0,
                            SWIZZLE_128_BYTES,
                            PROMOTE_128_BYTES,
                            0);
        }
        return memory;
    }

    MemorySegment memory() {
        return memory;
    }
}
