package dev.tandem.cpu.simd;

import java.util.Arrays;
import java.util.Optional;

/**
 * The input rows of a GEMM, arranged for the kernels of one kind of {@link PackedMatrix}. Rows for {@link GroupKernel}
 * and {@link GroupGemm} are interleaved in groups of eight. For quantised matrices, inputs are multiplied by
 * {@link QuantFormat#inputFactor} and summed per group, once for all panels; or they are rounded to int8 for
 * {@link Int8Kernel}. The buffers grow as needed.
 *
 * <p>Owned by: the thread that calls {@link #begin}; between that and the GEMM, threads may arrange disjoint parts.
 */
public final class GemmInput {
    private static final int PERIOD = QuantFormat.MIN_GROUP;

    /** Rounds inputs of quantised matrices to int8; empty if they stay fp32. */
    private final Optional<Int8Kernel> int8;

    private final float[] factors = new float[PERIOD];
    private int depth;
    /** Rows of the GEMM. */
    private int rows;
    /** How many of them are interleaved. */
    private int interleaved;
    /** Inputs per sum; 0 for a matrix that is not quantised. */
    private int group;

    /** [rows, depth] as given. */
    private float[] given = new float[0];

    private int givenStride;
    /** Whether the rows are rounded to int8. */
    private boolean rounded;

    /** [interleaved / 8][depth][8]. */
    float[] groups = new float[0];
    /** The other rows: as given, or multiplied. */
    float[] singles = new float[0];

    private float[] multiplied = new float[0];
    /** [interleaved / 8][depth / group][8], then [other rows, depth / group]; of int8, [depth / group][rows]. */
    float[] sums = new float[0];

    private byte[] quants = new byte[0];
    private float[] steps = new float[0];
    private QuantFormat format = QuantFormat.Q8_0;

    /** Rows for kernels that compute with this precision. */
    public GemmInput(ActivationPrecision precision) {
        this.int8 = switch (precision) {
            case EXACT -> Optional.empty();
            case INT8 -> {
                String message = "int8 activations cannot be multiplied here: " + Int8Kernel.obstacle();
                yield Optional.of(Int8Kernel.find().orElseThrow(() -> new IllegalStateException(message)));
            }
        };
    }

    /** Whether what is arranged for one of two matrices serves the other. */
    public static boolean alike(PackedMatrix one, PackedMatrix other) {
        return one instanceof PackedMatrix.Quantised a && other instanceof PackedMatrix.Quantised b
                ? a.format().bits == b.format().bits && a.format().group == b.format().group
                : one instanceof PackedMatrix.Plain && other instanceof PackedMatrix.Plain;
    }

    /**
     * Begins to arrange rows for a matrix; {@link #arrange} must follow for every part.
     *
     * @param x [rows, depth], rows {@code xs} apart; must not change before the GEMM is done
     */
    public void begin(PackedMatrix matrix, int rows, float[] x, int xs) {
        this.depth = matrix.depth();
        this.rows = rows;
        this.rounded = rounds(matrix);
        this.interleaved = rounded ? 0 : GroupKernel.grouped(rows);
        this.given = x;
        this.givenStride = xs;
        groups = reserve(groups, interleaved * depth);
        switch (matrix) {
            case PackedMatrix.Plain _ -> {
                group = 0;
                Arrays.fill(factors, 1);
                singles = x;
            }
            case PackedMatrix.Quantised quantised
            when rounded -> {
                format = quantised.format();
                group = format.group;
                quants = quants.length < rows * depth ? new byte[rows * depth] : quants;
                steps = reserve(steps, rows * sumStride());
                sums = reserve(sums, rows * sumStride());
            }
            case PackedMatrix.Quantised quantised -> {
                group = quantised.format().group;
                for (int k = 0; k < PERIOD; k++) {
                    factors[k] = quantised.format().inputFactor(k);
                }
                sums = reserve(sums, rows * sumStride());
                multiplied = reserve(multiplied, (rows - interleaved) * depth);
                singles = multiplied;
            }
        }
    }

    private boolean rounds(PackedMatrix matrix) {
        return int8.isPresent() && matrix instanceof PackedMatrix.Quantised;
    }

    private static float[] reserve(float[] buffer, int size) {
        return buffer.length < size ? new float[size] : buffer;
    }

    /** Parts that threads can arrange independently. */
    public int parts() {
        return (rows + GroupKernel.ROWS - 1) / GroupKernel.ROWS;
    }

    /** Arranges one part. */
    public void arrange(int part) {
        int first = part * GroupKernel.ROWS;
        int last = Math.min(rows, first + GroupKernel.ROWS);
        if (rounded) {
            for (int row = first; row < last; row++) {
                int8.orElseThrow().arrange(format, depth, given, row * givenStride, rows, row, quants, steps, sums);
            }
            return;
        }
        if (first < interleaved) {
            interleave(first);
        }
        for (int row = first; group > 0 && row < last; row++) {
            if (row >= interleaved) {
                multiply(row);
            }
            sum(row);
        }
    }

    private void interleave(int first) {
        int to = first * depth;
        for (int k = 0; k < depth; k++) {
            float factor = factors[k % PERIOD];
            for (int row = 0; row < GroupKernel.ROWS; row++) {
                groups[to + k * GroupKernel.ROWS + row] = given[(first + row) * givenStride + k] * factor;
            }
        }
    }

    private void multiply(int row) {
        int from = row * givenStride;
        int to = (row - interleaved) * depth;
        for (int k = 0; k < depth; k += PERIOD) {
            for (int i = 0; i < PERIOD; i++) {
                multiplied[to + k + i] = given[from + k + i] * factors[i];
            }
        }
    }

    private void sum(int row) {
        int at = row * givenStride;
        boolean single = row >= interleaved;
        int to = single
                ? row * sumStride()
                : row / GroupKernel.ROWS * GroupKernel.ROWS * sumStride() + row % GroupKernel.ROWS;
        int step = single ? 1 : GroupKernel.ROWS;
        for (int k = 0; k < depth; k += group) {
            float sum = 0;
            for (int i = 0; i < group; i++) {
                sum += given[at + k + i];
            }
            sums[to] = sum;
            to += step;
        }
    }

    /** Where an interleaved row's group begins in {@link #groups}. */
    int groupAt(int row) {
        return row * depth;
    }

    /** Where a row that is not interleaved begins in {@link #singles}. */
    int singleAt(int row) {
        return group == 0 ? row * givenStride : (row - interleaved) * depth;
    }

    /** How far apart rows are in {@link #singles}. */
    int singleStride() {
        return group == 0 ? givenStride : depth;
    }

    /** Whether the rows are rounded to int8. */
    boolean rounded() {
        return rounded;
    }

    /**
     * Computes {@code out[row] += x[row] · panels} for {@code count} rows from {@code from}, which are rounded.
     *
     * @param out [panels, count, {@link Lanes#PANEL}] from {@code oo}
     */
    void multiplyInt8(PackedMatrix.Quantised matrix, int panel, int panels, int from, int count, float[] out, int oo) {
        int8.orElseThrow().multiply(matrix, panel, panels, rows, quants, steps, sums, from, count, out, oo);
    }

    /** Sums per row. */
    int sumStride() {
        return depth / group;
    }
}
