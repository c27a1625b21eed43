package dev.tandem.cpu.simd;

import dev.tandem.model.config.DataType;
import java.lang.foreign.MemorySegment;

/**
 * A weight matrix re-arranged once for {@link TileKernel}: panels of {@link Lanes#PANEL} output columns, and within a
 * panel one short run of all its columns for each k. A panel is one sequential stream, whatever the number of rows.
 *
 * <p>The memory belongs to the arena it was packed into.
 */
public sealed interface PackedMatrix {
    /** Inputs of the product. */
    int depth();

    /** Outputs of the product, before padding to whole panels. */
    int columns();

    MemorySegment data();

    /** Bytes of one panel. */
    long panelBytes();

    default int panels() {
        return Lanes.padded(columns()) / Lanes.PANEL;
    }

    default long panel(int index) {
        return data().address() + index * panelBytes();
    }

    /** Unquantised: {@code [panel][k][PANEL]} of the type. */
    record Plain(int depth, int columns, DataType type, MemorySegment data) implements PackedMatrix {
        @Override
        public long panelBytes() {
            return (long) depth * Lanes.PANEL * type.bytes();
        }
    }

    /**
     * Blocks of 32 inputs with a scale (and a minimum) for each column, as GGUF's Q4_0, Q4_1 and Q8_0 have them: weight
     * = quant · scale + minimum, exactly what unpacking the file to fp32 gives. In a panel, each block is
     * {@code [scales][minimums, for 4 bits][32 inputs' quants]}. A scale word's lane i holds the fp16 of columns i (low
     * half) and i + COUNT (high half); a quant word's lane i holds {@code fields / 2} inputs of column i, then the same
     * inputs of column i + COUNT. With 8 bits the minimum is −128 · scale.
     *
     * @param bits of a quant, unsigned: 4 or 8
     */
    record Quantised(int depth, int columns, int bits, MemorySegment data) implements PackedMatrix {
        public static final int BLOCK = 32;

        /** Bytes of scales (or of minimums) of one block of a panel. */
        static int scaleBytes() {
            return Lanes.COUNT * Integer.BYTES;
        }

        int blockBytes() {
            return scaleBytes() * (bits == 4 ? 2 : 1) + BLOCK * Lanes.PANEL * bits / 8;
        }

        @Override
        public long panelBytes() {
            return (long) depth / BLOCK * blockBytes();
        }
    }
}
