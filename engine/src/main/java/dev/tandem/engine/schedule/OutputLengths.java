package dev.tandem.engine.schedule;

import java.util.Arrays;

/**
 * How many tokens sequences put out, by those that ended last, and so how many more one will that has put out some.
 *
 * <p>Owned by: engine thread.
 */
public final class OutputLengths {
    private static final int MAX = 512;
    /** As few say nothing. */
    private static final int MIN = 16;

    private final int[] ended = new int[MAX];
    private int count;
    private int next;
    private int[] sorted = {};
    /** Sums of {@link #sorted} from each place to the end. */
    private long[] sums = {0};

    private boolean stale;

    void ended(int tokens) {
        ended[next] = tokens;
        next = (next + 1) % MAX;
        count = Math.min(count + 1, MAX);
        stale = true;
    }

    /**
     * Tokens that a sequence still puts out, in the mean: of those that ended last, the ones that put out more than it
     * has so far tell. Beyond all of them it is supposed to end soon; 0 while too few have ended.
     */
    double remaining(int soFar) {
        if (count < MIN) {
            return 0;
        }
        if (stale) {
            sort();
        }
        int from = firstAbove(soFar);
        int longer = count - from;
        return longer == 0 ? 1 : (double) sums[from] / longer - soFar;
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
