package dev.tandem.bench;

/**
 * The requests with which a closed loop begins.
 *
 * @param count requests that the loop keeps in the engine, waiting or running
 * @param inProgress the first of them, which begin in the middle of their output; the others begin with their prompt
 */
public record FirstRequests(int count, int inProgress) {
    /** @throws IllegalArgumentException unless {@code 0 <= inProgress <= count} */
    public FirstRequests {
        if (inProgress < 0 || inProgress > count) {
            throw new IllegalArgumentException(inProgress + " of " + count + " requests cannot be in progress");
        }
    }

    /** The start of a load that has run for long, where the engine runs all of the loop's requests. */
    public static FirstRequests allInProgress(int count) {
        return new FirstRequests(count, count);
    }
}
