package dev.tandem.cuda.gemm;

/**
 * Chooses the number of depth splits of a GEMM with few strips of weight rows, so that its thread blocks fill whole
 * waves of the multiprocessors.
 */
final class SplitK {
    /** Min columns per split; a smaller split costs more for its partial sums than it saves. */
    private static final int MIN_COLUMNS = 256;

    private static final int MAX = 16;
    /** Cost of the partial sums per split, as a fraction of the GEMM. */
    private static final double COST_PER_SPLIT = 0.02;

    private SplitK() {}

    /**
     * The number of splits.
     *
     * @param strips of weight rows, one thread block each
     * @param depth columns of the weights
     * @param blocksAtATime thread blocks that the GPU holds at a time
     * @param fixed start-up cost of a thread block, in columns; 0 where two share a multiprocessor, so that one's
     *     start-up overlaps the other's work
     */
    static int of(int strips, int depth, int blocksAtATime, int fixed) {
        int max = Math.clamp(depth / MIN_COLUMNS, 1, MAX);
        int best = 1;
        double min = Double.MAX_VALUE;
        for (int splits = 1; splits <= max; splits++) {
            int waves = (strips * splits + blocksAtATime - 1) / blocksAtATime;
            double cost = waves * ((double) depth / splits + fixed) * (1 + COST_PER_SPLIT * splits);
            if (cost < min) {
                min = cost;
                best = splits;
            }
        }
        return best;
    }
}
