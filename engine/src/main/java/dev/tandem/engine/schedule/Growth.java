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
    /** Tokens held now, and those still to come, of each sequence; those with the most to come first. */
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
        for (; at > 0 && coming[at - 1] < tokens; at--) {
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
        int earlier = 0;
        for (; earlier < count && coming[earlier] > tokens; earlier++) {
            now += held[earlier];
            most = Math.max(most, now + (earlier + 1) * coming[earlier]);
        }
        long all = now + candidate.length();
        most = Math.max(most, all + (earlier + 1) * tokens);
        for (int i = earlier; i < count; i++) {
            now += held[i];
            all += held[i];
            most = Math.max(most, all + (i + 2) * coming[i]);
        }
        return (int) Math.ceil(most) - (int) now;
    }

    private double coming(Sequence sequence) {
        return Math.min(sequence.limit() - sequence.length(), lengths.remaining(sequence.outputLength()));
    }
}
