package dev.tandem.engine.request;

import java.util.List;

/**
 * Finds stop strings in text that arrives in pieces, holding back only what may still become one.
 *
 * <p>Owned by: engine thread.
 */
public final class StopMatcher {
    private final List<String> stops;
    private final boolean includeStop;
    private final StringBuilder held = new StringBuilder();
    private String matched = "";

    public StopMatcher(List<String> stops, boolean includeStop) {
        this.stops = stops;
        this.includeStop = includeStop;
    }

    /** Adds text and returns what may be released; after a match nothing more is. */
    public String append(String text) {
        if (stops.isEmpty()) {
            return text;
        }
        if (!matched.isEmpty()) {
            return "";
        }
        held.append(text);
        int first = -1;
        for (String stop : stops) {
            int at = held.indexOf(stop);
            if (at >= 0 && (first < 0 || at < first)) {
                first = at;
                matched = stop;
            }
        }
        if (first >= 0) {
            String released = held.substring(0, includeStop ? first + matched.length() : first);
            held.setLength(0);
            return released;
        }
        int keep = longestPendingPrefix();
        String released = held.substring(0, held.length() - keep);
        held.delete(0, held.length() - keep);
        return released;
    }

    /** Releases what was held back; empty after a match. */
    public String finish() {
        String rest = held.toString();
        held.setLength(0);
        return rest;
    }

    /** The stop string that was found, or empty. */
    public String matched() {
        return matched;
    }

    private int longestPendingPrefix() {
        int longest = 0;
        for (String stop : stops) {
            for (int size = Math.min(stop.length() - 1, held.length()); size > longest; size--) {
                if (stop.startsWith(held.substring(held.length() - size))) {
                    longest = size;
                }
            }
        }
        return longest;
    }
}
