package dev.tandem.engine.schedule;

import dev.tandem.engine.request.Sequence;
import java.util.Arrays;

/**
 * Tokens that the sequences of one tier will hold at most, if each goes on for as long as those did that ended last.
 * All get a token a step and give everything back at their ends, so the most is held when one of them is about to end:
 * the maximum over these moments (the "past-future scheduler", Gong et al., ASPLOS 2025, takes it of sampled lengths;
 * these are means).
 */
final class KvDemandForecast {
    /** Fractions of a token in which what is still to come is kept. */
    private static final int FRACTIONS = 16;

    private final OutputLengths lengths;
    /**
     * What each sequence has to come, in fractions, above the tokens that it holds now; in ascending order once asked.
     */
    private long[] sequences = new long[64];

    private int count;
    private boolean sorted;

    KvDemandForecast(OutputLengths lengths) {
        this.lengths = lengths;
    }

    boolean isEmpty() {
        return count == 0;
    }

    void add(Sequence sequence) {
        if (count == sequences.length) {
            sequences = Arrays.copyOf(sequences, 2 * count);
        }
        long packed = Math.round(coming(sequence) * FRACTIONS) << 32 | sequence.length();
        int at = count;
        if (sorted) {
            int found = Arrays.binarySearch(sequences, 0, count, packed);
            at = found < 0 ? -found - 1 : found;
            System.arraycopy(sequences, at, sequences, at + 1, count - at);
        }
        sequences[at] = packed;
        count++;
    }

    /** Tokens at the most, one more sequence among them, beyond those that the others hold now. */
    int maxWith(Sequence candidate) {
        if (!sorted) {
            Arrays.sort(sequences, 0, count);
            sorted = true;
        }
        double tokens = coming(candidate);
        double max = 0;
        long now = 0;
        int left = count;
        for (; left > 0 && coming(left - 1) > tokens; left--) {
            now += held(left - 1);
            max = Math.max(max, now + (count - left + 1) * coming(left - 1));
        }
        long all = now + candidate.length();
        max = Math.max(max, all + (count - left + 1) * tokens);
        for (; left > 0; left--) {
            now += held(left - 1);
            all += held(left - 1);
            max = Math.max(max, all + (count - left + 2) * coming(left - 1));
        }
        return (int) Math.ceil(max) - (int) now;
    }

    private int held(int index) {
        return (int) sequences[index];
    }

    private double coming(int index) {
        return (double) (sequences[index] >> 32) / FRACTIONS;
    }

    private double coming(Sequence sequence) {
        return Math.min(sequence.limit() - sequence.length(), lengths.remaining(sequence.outputLength()));
    }
}
