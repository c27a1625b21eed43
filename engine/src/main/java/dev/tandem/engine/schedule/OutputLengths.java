package dev.tandem.engine.schedule;

import java.util.Arrays;

/**
 * Output lengths of the sequences that ended last, and the expected further tokens of a running one.
 *
 * <p>Owned by: engine thread.
 */
public final class OutputLengths {
    private static final int MAX_SAMPLES = 512;
    /** Fewer lengths give no usable mean. */
    private static final int MIN_SAMPLES = 16;

    private final int[] ended = new int[MAX_SAMPLES];
    private int count;
    /** Sequences that have ended, also those whose lengths are forgotten. */
    private long all;

    private int next;
    private int[] sorted = {};
    /** [count + 1] sums of {@link #sorted} from each index to the end. */
    private long[] sums = {0};

    private boolean stale;

    void ended(int tokens) {
        ended[next] = tokens;
        next = (next + 1) % MAX_SAMPLES;
        count = Math.min(count + 1, MAX_SAMPLES);
        all++;
        stale = true;
    }

    /**
     * Expected further tokens of a sequence with {@code soFar} output tokens: the mean over the recorded lengths above
     * {@code soFar}. It is 1 when there are none, and 0 while too few sequences have ended.
     */
    double remaining(int soFar) {
        if (count < MIN_SAMPLES) {
            return 0;
        }
        if (stale) {
            sort();
        }
        int from = firstAbove(soFar);
        int longer = count - from;
        return longer == 0 ? 1 : (double) sums[from] / longer - soFar;
    }

    /**
     * Mean output; 0 while too few sequences have ended. Those that end first are the short ones. So at first the mean
     * is all tokens per sequence that has ended, as in a system in equilibrium. The tokens of running sequences count
     * for less and less, until twice as many have ended as run.
     *
     * @param running sequences that have not ended
     * @param tokens that these have
     */
    double meanWith(int running, long tokens) {
        if (count < MIN_SAMPLES) {
            return 0;
        }
        if (stale) {
            sort();
        }
        double fading = Math.max(0, 1 - all / (2.0 * Math.max(1, running)));
        return (double) sums[0] / count + fading * tokens / all;
    }

    private void sort() {
        sorted = Arrays.copyOf(ended, count);
        Arrays.sort(sorted);
        sums = new long[count + 1];
        for (int i = count - 1; i >= 0; i--) {
            sums[i] = sums[i + 1] + sorted[i];
        }
        stale = false;
    }

    private int firstAbove(int tokens) {
        int low = 0;
        int high = count;
        while (low < high) {
            int middle = (low + high) / 2;
            if (sorted[middle] > tokens) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        return low;
    }
}
