package dev.tandem.engine.schedule;

import dev.tandem.engine.request.Sequence;
import java.util.Arrays;

/**
 * Forecasts the max number of tokens that the sequences of one tier will hold at a time.
 *
 * <p>Each sequence is expected to run as long as those that ended last. All sequences gain one token per step and free
 * everything at their ends. So the max occurs just before one of them ends, and the forecast is the max over these
 * moments. The past-future scheduler (Gong et al., ASPLOS 2025) does this with sampled lengths; here they are means.
 *
 * <p>With a sliding window, a sequence stops growing. The forecast is then at most the sum of what each holds at its
 * end.
 *
 * <p>Tokens that a sequence hit in the prefix cache are not counted as its own: others may hold them after its end.
 *
 * <p>Owned by: engine thread.
 */
final class KvDemandForecast {
    /** Units per token in which expected tokens are kept. */
    private static final int UNITS_PER_TOKEN = 16;

    private final OutputLengths lengths;
    private final int maxTokens;
    /**
     * [count] per sequence: expected further tokens in units (high 32 bits), tokens it holds (low); sorted once asked.
     */
    private long[] sequences = new long[64];

    private int count;
    private boolean sorted;

    /** @param maxTokens that a sequence grows to; {@link Integer#MAX_VALUE} without a limit */
    KvDemandForecast(OutputLengths lengths, int maxTokens) {
        this.lengths = lengths;
        this.maxTokens = maxTokens;
    }

    boolean isEmpty() {
        return count == 0;
    }

    /**
     * Adds a sequence.
     *
     * @param tokens that it holds and frees at its end
     */
    void add(Sequence sequence, int tokens) {
        if (count == sequences.length) {
            sequences = Arrays.copyOf(sequences, 2 * count);
        }
        long packed = Math.round(expected(sequence) * UNITS_PER_TOKEN) << 32 | tokens;
        int at = count;
        if (sorted) {
            int found = Arrays.binarySearch(sequences, 0, count, packed);
            at = found < 0 ? -found - 1 : found;
            System.arraycopy(sequences, at, sequences, at + 1, count - at);
        }
        sequences[at] = packed;
        count++;
    }

    /** Tokens that the sequences hold now. */
    long held() {
        long tokens = 0;
        for (int i = 0; i < count; i++) {
            tokens += held(i);
        }
        return tokens;
    }

    /** The forecast max with one more sequence until all have ended, less the tokens that the others hold now. */
    int maxWith(Sequence candidate, int candidateTokens) {
        return maxWith(candidate, candidateTokens, Integer.MAX_VALUE);
    }

    /**
     * The forecast max with one more sequence, less the tokens that the others hold now.
     *
     * @param candidateTokens that it takes when it starts
     * @param steps that the forecast looks ahead
     */
    int maxWith(Sequence candidate, int candidateTokens, int steps) {
        if (!sorted) {
            Arrays.sort(sequences, 0, count);
            sorted = true;
        }
        double tokens = Math.min(steps, expected(candidate));
        double max = 0;
        long now = 0;
        int left = count;
        for (; left > 0 && expected(left - 1, steps) > tokens; left--) {
            now += held(left - 1);
            max = Math.max(max, now + (count - left + 1) * expected(left - 1, steps));
        }
        long all = now + candidateTokens;
        max = Math.max(max, all + (count - left + 1) * tokens);
        for (; left > 0; left--) {
            now += held(left - 1);
            all += held(left - 1);
            max = Math.max(max, all + (count - left + 2) * expected(left - 1, steps));
        }
        if (maxTokens < Integer.MAX_VALUE) {
            max = Math.min(max, saturated(candidateTokens, tokens, steps));
        }
        return (int) Math.ceil(max) - (int) now;
    }

    /** The sum of what all sequences hold when they have grown as far as they will. */
    private double saturated(int candidateTokens, double candidateGrowth, int steps) {
        double sum = saturated(candidateTokens, candidateGrowth);
        for (int i = 0; i < count; i++) {
            sum += saturated(held(i), expected(i, steps));
        }
        return sum;
    }

    private double saturated(int held, double growth) {
        return Math.max(held, Math.min(held + growth, maxTokens));
    }

    private int held(int index) {
        return (int) sequences[index];
    }

    private double expected(int index, int steps) {
        return Math.min(steps, (double) (sequences[index] >> 32) / UNITS_PER_TOKEN);
    }

    private double expected(Sequence sequence) {
        return Math.min(sequence.limit() - sequence.length(), lengths.remaining(sequence.outputLength()));
    }
}
