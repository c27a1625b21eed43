package dev.tandem.text.answer;

import java.util.List;

/**
 * Calls between {@code <tool_call>} and {@code </tool_call>}, as Hermes and Qwen write them.
 *
 * <p>Owned by: one parser.
 */
final class HermesCalls implements Stage {
    static final String BEGIN = "<tool_call>";
    static final String END = "</tool_call>";

    private enum State {
        TEXT,
        CALL,
        /** After a call's object; the end marker should follow. */
        AFTER_CALL,
        /** In a call whose JSON is broken; it goes on until the end marker. */
        BROKEN_CALL
    }

    private final PartBuffer parts;
    private final MarkerMatcher matcher;
    /** A call whose name is not known yet. */
    private final StringBuilder head = new StringBuilder();

    private CallObject call;
    private State state = State.TEXT;

    HermesCalls(PartBuffer parts) {
        this.parts = parts;
        this.call = CallObject.marked(parts);
        this.matcher = new MarkerMatcher(List.of(BEGIN, END), this::text);
    }

    @Override
    public void next(char c) {
        if (state == State.CALL) {
            call(c);
            return;
        }
        String marker = matcher.next(c);
        if (marker.equals(END) && state != State.TEXT) {
            state = State.TEXT;
        } else if (marker.equals(BEGIN) && state != State.BROKEN_CALL) {
            call = CallObject.marked(parts);
            head.setLength(0);
            head.append(BEGIN);
            state = State.CALL;
        } else {
            marker.chars().forEach(m -> text((char) m));
        }
    }

    private void call(char c) {
        switch (call.next(c)) {
            case MORE -> head.append(c);
            case DONE -> state = State.AFTER_CALL;
            case BROKEN -> {
                if (call.isStarted()) {
                    state = State.BROKEN_CALL;
                } else {
                    state = State.TEXT;
                    parts.content(head);
                }
                next(c);
            }
        }
    }

    private void text(char c) {
        if (state != State.BROKEN_CALL) {
            parts.content(c);
        } else if (!call.isComplete()) {
            parts.arguments(c);
        }
    }

    @Override
    public void finish() {
        matcher.flush();
        if (state == State.CALL && !call.isStarted()) {
            parts.content(head);
        }
    }
}
