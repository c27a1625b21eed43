package dev.tandem.cpu.simd;

import dev.tandem.model.config.DataType;
import java.lang.foreign.MemorySegment;

/**
 * A weight matrix in the layout that {@link PanelGemm} reads: panels of {@link Lanes#PANEL} output columns. Within a
 * panel the weights of all its columns for one input k are contiguous, so a GEMM reads each panel sequentially.
 *
 * <p>The arena that {@link MatrixPacker} was given owns the memory.
 */
public sealed interface PackedMatrix {
    /** The GEMM's inputs per row. */
    int depth();

    /** The GEMM's outputs per row, before padding to whole panels. */
    int columns();

    /** The packed weights. */
    MemorySegment data();

    /** Bytes per panel. */
    long panelBytes();

    /** The number of panels. */
    default int panels() {
        return Lanes.padded(columns()) / Lanes.PANEL;
    }

    /** The address of a panel. */
    default long panel(int index) {
        return data().address() + index * panelBytes();
    }

    /** A matrix that is not quantised: {@code [panel][k][PANEL]} of the type. */
    record Plain(int depth, int columns, DataType type, MemorySegment data) implements PackedMatrix {
        @Override
        public long panelBytes() {
            return (long) depth * Lanes.PANEL * type.bytes();
        }
    }

    /**
     * A matrix of blocks of 32 inputs with a scale, and for 4 bits a minimum, per column, as in GGUF's Q4_0, Q4_1 and
     * Q8_0. A weight is {@code quant · scale + minimum}, which is exactly the file's weight as fp32.
     *
     * <pre>
     * panel      [block], one per 32 inputs
     * block      [scales][minimums, for 4 bits only][quants of 32 inputs]; with 8 bits a minimum is -128 · scale
     * scales     one vector of words; lane i: fp16 of column i (low half), fp16 of column i + COUNT (high half)
     * minimums   as scales
     * quants     vectors of words; lane i: 4 inputs (4 bits) or 2 inputs (8 bits) of column i, low half,
     *            then the same inputs of column i + COUNT, high half
     * </pre>
     *
     * @param bits per quant, unsigned: 4 or 8
     */
    record Quantised(int depth, int columns, int bits, MemorySegment data) implements PackedMatrix {
        /** Inputs per block. */
        public static final int BLOCK = 32;

        /** Bytes of the scales, or of the minimums, of one block of a panel. */
        static int scaleBytes() {
            return Lanes.COUNT * Integer.BYTES;
        }

        /** Bytes of one block of a panel. */
        int blockBytes() {
            return scaleBytes() * (bits == 4 ? 2 : 1) + BLOCK * Lanes.PANEL * bits / 8;
        }

        @Override
        public long panelBytes() {
            return (long) depth / BLOCK * blockBytes();
        }
    }
}
