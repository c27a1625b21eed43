package dev.tandem.engine.request;

import java.util.ArrayList;
import java.util.List;

/**
 * Finds stop strings in text that arrives in pieces, holding back only what may still become one. The match that ends
 * first counts, and of several that end together the longest: the result does not depend on how the text was cut.
 *
 * <p>Each string is matched by Knuth, Morris and Pratt's automaton, so that the work is at most two comparisons per
 * character and stop string, however long the strings and the text are.
 *
 * <p>Owned by: engine thread.
 */
public final class StopMatcher {
    private final List<Pattern> patterns = new ArrayList<>();
    private final boolean includeStop;
    private final StringBuilder held = new StringBuilder();
    private String matched = "";
    private long comparisons;

    /** One stop string, and how much of it the text so far ends with. */
    private final class Pattern {
        private final String stop;
        /** [length + 1] longest proper prefix that ends a prefix of so many characters */
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

        /** True when the character completes the string. */
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
            length = borders[length]; // where this match does not count, its end may begin another
            return true;
        }
    }

    public StopMatcher(List<String> stops, boolean includeStop) {
        stops.forEach(stop -> patterns.add(new Pattern(stop)));
        this.includeStop = includeStop;
    }

    /** Adds text that may stop the generation. */
    public String append(String text) {
        return append(text, true);
    }

    /**
     * Adds text and returns what may be released; after a match nothing more is.
     *
     * @param mayStop whether a stop string that ends in this text counts; the text may still begin one that counts
     *     later
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

    /** Releases all but the last characters, which are kept or dropped. */
    private String release(int rest, boolean drop) {
        int end = held.length() - rest;
        String released = held.substring(0, end);
        held.delete(0, drop ? held.length() : end);
        return released;
    }

    /** Releases what was held back; empty after a match. */
    public String finish() {
        return release(0, true);
    }

    /** The stop string that was found, or empty. */
    public String matched() {
        return matched;
    }

    /** Characters that were compared so far. */
    public long comparisons() {
        return comparisons;
    }
}
