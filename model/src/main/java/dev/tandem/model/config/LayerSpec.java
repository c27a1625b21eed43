package dev.tandem.model.config;

import dev.tandem.model.ModelException;

/**
 * What one decoder layer computes: attention, then an MLP with a gate, each added to the residual stream.
 *
 * @param intermediate width of gate and up
 */
public record LayerSpec(Attention attention, int intermediate, Activation activation, NormPlacement norms) {

    /**
     * Causal attention.
     *
     * @param headDim dimensions per head; not always hidden / heads
     * @param scoreScale factor of the scores
     * @param window how many tokens a token attends to at most, itself included; 0 for all
     * @param qkvBias whether the q, k and v projections have a bias
     */
    public record Attention(
            int heads,
            int kvHeads,
            int headDim,
            double scoreScale,
            int window,
            Rope rope,
            QkNorm qkNorm,
            boolean qkvBias) {
        public Attention {
            if (window < 0) {
                throw new ModelException("the sliding window is " + window + "; it must be at least 1, or 0 for none");
            }
        }

        /** The usual factor of scores. */
        public static double usualScale(int headDim) {
            return 1 / Math.sqrt(headDim);
        }

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
