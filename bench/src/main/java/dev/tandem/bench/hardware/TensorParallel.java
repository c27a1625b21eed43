package dev.tandem.bench.hardware;

/**
 * How many GPUs share each layer. Each has an equal part of the weights and of the KV heads, and each layer ends its
 * attention and its MLP with an all-reduce over the tokens' hidden states.
 *
 * @param degree number of GPUs; 1 has no all-reduce
 * @param bandwidth bytes per second of one GPU to the others, in one direction
 * @param latency seconds of an all-reduce of few bytes
 */
public record TensorParallel(int degree, double bandwidth, double latency) {
    /** One GPU. */
    public static final TensorParallel NONE = new TensorParallel(1, Double.POSITIVE_INFINITY, 0);

    private static final int ALL_REDUCES_PER_LAYER = 2;
    private static final int VALUE_BYTES = 2;

    /**
     * Seconds per layer of the all-reduces for this many tokens. A ring sends each GPU's part twice: 2 (n - 1) / n of
     * the bytes.
     */
    public double secondsPerLayer(double tokens, int hidden) {
        if (degree == 1 || tokens <= 0) {
            return 0;
        }
        double bytes = tokens * hidden * VALUE_BYTES * 2.0 * (degree - 1) / degree;
        return ALL_REDUCES_PER_LAYER * (latency + bytes / bandwidth);
    }
}
