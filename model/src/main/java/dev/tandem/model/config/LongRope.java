package dev.tandem.model.config;

/**
 * LongRoPE (Phi-3, Phi-4-mini): frequency divisors for short and for long contexts, and a factor of the rotated
 * dimensions. Only the short divisors are used, and the context ends where they do. A sequence that changed divisors on
 * its way would have to compute all of its K again.
 */
public final class LongRope {
    private LongRope() {}

    /**
     * The factor of the rotated dimensions where a file has none.
     *
     * @param factor how many times the original context the whole context is
     */
    public static double magnitude(double factor, int originalContext) {
        return factor <= 1 ? 1 : Math.sqrt(1 + Math.log(factor) / Math.log(originalContext));
    }
}
