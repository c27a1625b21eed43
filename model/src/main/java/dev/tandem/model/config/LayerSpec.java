package dev.tandem.model.config;

/**
 * What one decoder layer computes: attention, then an MLP with SwiGLU, each added to the residual stream.
 *
 * @param intermediate width of gate and up
 */
public record LayerSpec(Attention attention, int intermediate, NormPlacement norms) {

    /**
     * Causal attention with the scale {@code 1 / sqrt(headDim)}.
     *
     * @param headDim dimensions per head; not always hidden / heads
     * @param qkvBias whether the q, k and v projections have a bias
     */
    public record Attention(int heads, int kvHeads, int headDim, Rope rope, QkNorm qkNorm, boolean qkvBias) {
        /** Width of all query heads. */
        public int queries() {
            return heads * headDim;
        }

        /** Width of all key heads, and of all value heads. */
        public int keys() {
            return kvHeads * headDim;
        }
    }
}
