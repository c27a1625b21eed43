package dev.tandem.text.answer;

import java.util.List;

/**
 * Finds markers in text that arrives character by character. It holds back only text that may still become a marker.
 *
 * <p>Owned by: one stage.
 */
final class MarkerMatcher {
    /** Takes a character that belongs to no marker. */
    interface Sink {
        void next(char c);
    }

    private final List<String> markers;
    private final Sink sink;
    private final StringBuilder held = new StringBuilder();

    /** @param markers of which none begins another */
    MarkerMatcher(List<String> markers, Sink sink) {
        this.markers = markers;
        this.sink = sink;
    }

    /** The marker that this character completes; empty when it completes none. */
    String next(char c) {
        held.append(c);
        while (!held.isEmpty()) {
            for (String marker : markers) {
                if (marker.contentEquals(held)) {
                    held.setLength(0);
                    return marker;
                }
            }
            if (markers.stream().anyMatch(marker -> startsWithHeld(marker))) {
                return "";
            }
            release();
        }
        return "";
    }

    private boolean startsWithHeld(String marker) {
        return marker.length() > held.length() && marker.regionMatches(0, held.toString(), 0, held.length());
    }

    private void release() {
        char first = held.charAt(0);
        held.deleteCharAt(0);
        sink.next(first);
    }

    /** Releases what is held back. */
    void flush() {
        while (!held.isEmpty()) {
            release();
        }
    }
}
