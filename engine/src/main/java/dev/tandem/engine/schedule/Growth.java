package dev.tandem.engine.schedule;

import dev.tandem.engine.request.Sequence;
import java.util.Arrays;

/**
 * Tokens that the sequences of one tier will hold at most, if each goes on for as long as those did that ended last. All get a
 * token a step and give everything back at their ends, so the most is held when one of them is about to end: the maximum over
 * these moments (the "past-future scheduler", Gong et al., ASPLOS 2025, takes it of sampled lengths; these are means).
 */
final class Growth {
    private final OutputLengths lengths;
    /** Tokens held now, and those still to come, of each sequence; those with the most to come last: as they come, mostly. */
    private int[] held = new int[16];
    private double[] coming = new double[16];
    private int count;

    Growth(OutputLengths lengths) {
        this.lengths = lengths;
    }

    boolean isEmpty() {
        return count == 0;
    }

    void add(Sequence sequence) {
        if (count == held.length) {
            held = Arrays.copyOf(held, 2 * count);
            coming = Arrays.copyOf(coming, 2 * count);
        }
        double tokens = coming(sequence);
        int at = count++;
        for (; at > 0 && coming[at - 1] > tokens; at--) {
            held[at] = held[at - 1];
            coming[at] = coming[at - 1];
        }
        held[at] = sequence.length();
        coming[at] = tokens;
    }

    /** Tokens at the most, one more sequence among them, beyond those that the others hold now. */
    int mostWith(Sequence candidate) {
        double tokens = coming(candidate);
        double most = 0;
        long now = 0;
        int left = count;
        for (; left > 0 && coming[left - 1] > tokens; left--) {
            now += held[left - 1];
            most = Math.max(most, now + (count - left + 1) * coming[left - 1]);
        }
        long all = now + candidate.length();
        most = Math.max(most, all + (count - left + 1) * tokens);
        for (; left > 0; left--) {
            now += held[left - 1];
            all += held[left - 1];
            most = Math.max(most, all + (count - left + 2) * coming[left - 1]);
        }
        return (int) Math.ceil(most) - (int) now;
    }

    private double coming(Sequence sequence) {
        return Math.min(sequence.limit() - sequence.length(), lengths.remaining(sequence.outputLength()));
    }
}
