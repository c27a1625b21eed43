package dev.tandem.engine.output;

import java.util.ArrayList;
import java.util.List;

/**
 * Finds stop strings in text that arrives in pieces. It holds back only text that may still become a stop string.
 *
 * <p>The match that ends first counts; of several that end at the same character, the longest. So the result does not
 * depend on how the text was cut.
 *
 * <p>Each string is matched by a Knuth-Morris-Pratt automaton: at most two comparisons per character and stop string.
 *
 * <p>Owned by: engine thread.
 */
public final class StopMatcher {
    private final List<Pattern> patterns = new ArrayList<>();
    private final boolean includeStop;
    private final StringBuilder held = new StringBuilder();
    private String matched = "";
    private long comparisons;

    /** One stop string with the length of its longest prefix that ends the text so far. */
    private final class Pattern {
        private final String stop;
        /** [length + 1] entry n: length of the longest proper prefix of the first n characters that also ends them. */
        private final int[] borders;

        private int length;

        Pattern(String stop) {
            this.stop = stop;
            this.borders = new int[stop.length() + 1];
            for (int i = 1, border = 0; i < stop.length(); i++) {
                while (border > 0 && stop.charAt(i) != stop.charAt(border)) {
                    border = borders[border];
                }
                if (stop.charAt(i) == stop.charAt(border)) {
                    border++;
                }
                borders[i + 1] = border;
            }
        }

        /** Consumes one character; true when it completes the stop string. */
        boolean advance(char next) {
            comparisons++;
            while (length > 0 && stop.charAt(length) != next) {
                length = borders[length];
                comparisons++;
            }
            if (stop.charAt(length) == next) {
                length++;
            }
            if (length < stop.length()) {
                return false;
            }
            length = borders[length]; // a match that does not count may overlap with the next one
            return true;
        }
    }

    /**
     * Creates a matcher of stop strings.
     *
     * @param includeStop whether the released text contains the stop string that was found
     */
    public StopMatcher(List<String> stops, boolean includeStop) {
        stops.forEach(stop -> patterns.add(new Pattern(stop)));
        this.includeStop = includeStop;
    }

    /** Adds text in which stop strings count; see {@link #append(String, boolean)}. */
    public String append(String text) {
        return append(text, true);
    }

    /**
     * Adds text and returns the text that may be released; empty after a match.
     *
     * @param mayStop whether a stop string that ends in this text counts; for one that ends in later text, the later
     *     call decides
     */
    public String append(String text, boolean mayStop) {
        if (patterns.isEmpty()) {
            return text;
        }
        if (!matched.isEmpty()) {
            return "";
        }
        for (int i = 0; i < text.length(); i++) {
            held.append(text.charAt(i));
            for (Pattern pattern : patterns) {
                if (pattern.advance(text.charAt(i)) && mayStop && pattern.stop.length() > matched.length()) {
                    matched = pattern.stop;
                }
            }
            if (!matched.isEmpty()) {
                return release(includeStop ? 0 : matched.length(), true);
            }
        }
        int pending = 0;
        for (Pattern pattern : patterns) {
            pending = Math.max(pending, pattern.length);
        }
        return release(pending, false);
    }

    /** Releases all but the last {@code retained} characters, which are kept for later or dropped. */
    private String release(int retained, boolean drop) {
        int end = held.length() - retained;
        String released = held.substring(0, end);
        held.delete(0, drop ? held.length() : end);
        return released;
    }

    /** Releases the text that was held back; empty after a match. */
    public String finish() {
        return release(0, true);
    }

    /** The stop string that was found, or empty. */
    public String matched() {
        return matched;
    }

    /** Character comparisons so far. */
    public long comparisons() {
        return comparisons;
    }
}
