package dev.tandem.engine.schedule;

/** Whether KV of a cached prefix is copied to the tier where a sequence starts, rather than computed there. */
@FunctionalInterface
public interface CopyRule {
    /** Copies whatever is cached: right where a copy takes far less time than computing, as within host memory. */
    CopyRule ALWAYS = (copied, rows, pairs) -> true;

    /**
     * Whether copying takes less time than computing.
     *
     * @param copied tokens to copy, as a mean over the layers
     * @param rows tokens that would be computed otherwise
     * @param pairs of one of these and a token that it attends to, as a mean over the layers
     */
    boolean pays(int copied, int rows, long pairs);
}
