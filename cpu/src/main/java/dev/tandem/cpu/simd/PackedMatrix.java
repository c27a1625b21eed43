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

    /** A matrix of quants with a scale and a minimum per group of inputs and column: a panel is as its format says. */
    record Quantised(int depth, int columns, QuantFormat format, MemorySegment data) implements PackedMatrix {
        @Override
        public long panelBytes() {
            return (long) format.vectors(depth) * Lanes.COUNT * Integer.BYTES;
        }
    }
}
