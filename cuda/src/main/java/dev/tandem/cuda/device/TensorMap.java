package dev.tandem.cuda.device;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.tandem.model.config.DataType;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/**
 * A row-major matrix of 16-bit values as the tensor copy engine sees it (compute capability 9.0 and later): boxes of 64
 * columns, swizzled by 128 bytes; what lies outside the matrix reads as zero.
 */
public final class TensorMap {
    /** {@code CUtensorMapDataType}, {@code CUtensorMapSwizzle} and {@code CUtensorMapL2promotion}, cuda.h. */
    private static final int FLOAT16 = 6;
    private static final int BFLOAT16 = 9;
    private static final int SWIZZLE_128_BYTES = 3;
    private static final int PROMOTE_128_BYTES = 2;
    private static final int BOX_COLUMNS = 64;

    private final MemorySegment memory;

    private TensorMap(MemorySegment memory) {
        this.memory = memory;
    }

    /** @param boxRows rows that one copy brings */
    public static TensorMap of(Device device, long address, long rows, long columns, int boxRows, DataType type) {
        MemorySegment memory = Arena.ofAuto().allocate(128, 64);
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment sizes = arena.allocateFrom(JAVA_LONG, columns, rows);
            MemorySegment strides = arena.allocateFrom(JAVA_LONG, columns * type.bytes());
            MemorySegment box = arena.allocateFrom(JAVA_INT, BOX_COLUMNS, boxRows);
            MemorySegment steps = arena.allocateFrom(JAVA_INT, 1, 1);
            device.driver().cuTensorMapEncodeTiled.call(
                    memory, type == DataType.BFLOAT16 ? BFLOAT16 : FLOAT16, 2, address, sizes, strides, box, steps, 0,
                    SWIZZLE_128_BYTES, PROMOTE_128_BYTES, 0);
        }
        return new TensorMap(memory);
    }

    MemorySegment memory() {
        return memory;
    }
}
