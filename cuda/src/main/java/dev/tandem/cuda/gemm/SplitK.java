package dev.tandem.cuda.gemm;

/**
 * How the depth of a product that has few strips of weight rows is cut, so that its thread blocks fill whole waves of
 * the multiprocessors.
 */
final class SplitK {
    /** A split of fewer columns is not worth its partial sums. */
    private static final int MIN_COLUMNS = 256;

    private static final int MAX = 16;
    /** Of the product, for each split's partial sums. */
    private static final double PART = 0.02;

    private SplitK() {}

    /**
     * The number of splits.
     *
     * @param strips of weight rows, a block each
     * @param depth columns of the weights
     * @param blocksAtATime thread blocks that the GPU holds
     * @param fixed what a block takes beside its columns, in columns: nothing where two share a multiprocessor and
     *     one's beginning is beside the other's middle
     */
    static int of(int strips, int depth, int blocksAtATime, int fixed) {
        int max = Math.clamp(depth / MIN_COLUMNS, 1, MAX);
        int best = 1;
        double min = Double.MAX_VALUE;
        for (int splits = 1; splits <= max; splits++) {
            int waves = (strips * splits + blocksAtATime - 1) / blocksAtATime;
            double cost = waves * ((double) depth / splits + fixed) * (1 + PART * splits);
            if (cost < min) {
                min = cost;
                best = splits;
            }
        }
        return best;
    }
}
