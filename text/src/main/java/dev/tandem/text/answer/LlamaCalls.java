package dev.tandem.text.answer;

import java.util.List;
import java.util.Set;

/**
 * Calls that are the whole answer, as Llama 3 writes them: JSON objects, several with semicolons between them, maybe
 * after {@code <|python_tag|>}. Nothing marks them, so an object that names no tool of the request is content.
 *
 * <p>Owned by: one parser.
 */
final class LlamaCalls implements Stage {
    static final String TAG = "<|python_tag|>";

    private enum State {
        /** Before the first character that is not white space, and between calls. */
        START,
        CALL,
        CONTENT,
        BROKEN_CALL
    }

    private final PartBuffer parts;
    private final Set<String> tools;
    private final MarkerMatcher matcher = new MarkerMatcher(List.of(TAG), this::start);
    /** What becomes content unless a call follows. */
    private final StringBuilder head = new StringBuilder();

    private CallObject call;
    private State state = State.START;

    LlamaCalls(PartBuffer parts, Set<String> tools) {
        this.parts = parts;
        this.tools = tools;
        this.call = CallObject.unmarked(parts, tools::contains);
    }

    @Override
    public void next(char c) {
        switch (state) {
            case START -> {
                head.append(matcher.next(c));
                if (state != State.START) {
                    matcher.flush();
                }
            }
            case CALL -> call(c);
            case CONTENT -> parts.content(c);
            case BROKEN_CALL -> {
                if (!call.isComplete()) {
                    parts.arguments(c);
                }
            }
        }
    }

    private void start(char c) {
        if (state == State.CONTENT) {
            parts.content(c);
            return;
        }
        boolean separates = parts.calls() > 0 && (c == ';' || c == ',');
        if (c == '{') {
            state = State.CALL;
            call = CallObject.unmarked(parts, tools::contains);
            call(c);
        } else {
            head.append(c);
            if (!separates && !Character.isWhitespace(c)) {
                giveUp();
            }
        }
    }

    private void giveUp() {
        state = State.CONTENT;
        parts.content(head);
        head.setLength(0);
    }

    private void call(char c) {
        switch (call.next(c)) {
            case MORE -> head.append(c);
            case DONE -> {
                state = State.START;
                head.setLength(0);
            }
            case BROKEN -> {
                if (call.isStarted()) {
                    state = State.BROKEN_CALL;
                    next(c);
                } else {
                    head.append(c);
                    giveUp();
                }
            }
        }
    }

    @Override
    public void finish() {
        matcher.flush();
        if (state == State.START || state == State.CALL && !call.isStarted()) {
            giveUp();
        }
    }
}
