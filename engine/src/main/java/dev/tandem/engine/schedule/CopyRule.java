package dev.tandem.engine.schedule;

/** Whether KV of a cached prefix is copied to the tier where a sequence starts, rather than computed there. */
@FunctionalInterface
public interface CopyRule {
    /** Copies whatever is cached: right where a copy takes far less time than computing, as within host memory. */
    CopyRule ALWAYS = (copied, from, to) -> true;

    /**
     * Whether copying takes less time than computing.
     *
     * @param copied tokens to copy
     * @param from position of the first token that would be computed otherwise
     * @param to position after the last one
     */
    boolean pays(int copied, int from, int to);
}
