package dev.tandem.text.answer;

import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Calls after {@code [TOOL_CALLS]}, as Mistral writes them: a list of objects, or, in newer models, a name and its
 * arguments, {@code [TOOL_CALLS]name{...}} or {@code [TOOL_CALLS]name[ARGS]{...}}.
 *
 * <p>Owned by: one parser.
 */
final class MistralCalls implements Stage {
    static final String BEGIN = "[TOOL_CALLS]";
    static final List<String> MARKERS = List.of(BEGIN, "[ARGS]", "[CALL_ID]");
    /** What precedes the arguments of a call that is no object. */
    private static final Pattern HEAD =
            Pattern.compile("\\s*([\\w.:/-]+)\\s*(?:\\[CALL_ID]\\s*\\w*\\s*)?(?:\\[ARGS]\\s*)?");
    /** Longer heads are content. */
    private static final int MAX_HEAD = 400;

    private enum State {
        TEXT,
        /** After the marker. */
        HEAD,
        ARGUMENTS,
        /** In an object of a list. */
        OBJECT,
        /** After an object of a list. */
        AFTER_OBJECT,
        BROKEN_CALL
    }

    private final PartBuffer parts;
    private final MarkerMatcher matcher;
    /** What becomes content unless it is a call. */
    private final StringBuilder head = new StringBuilder();

    private CallObject call;
    private JsonScanner scanner = new JsonScanner();
    private boolean inList;
    private State state = State.TEXT;

    MistralCalls(PartBuffer parts) {
        this.parts = parts;
        this.call = CallObject.marked(parts);
        this.matcher = new MarkerMatcher(List.of(BEGIN), this::text);
    }

    @Override
    public void next(char c) {
        switch (state) {
            case TEXT, BROKEN_CALL -> {
                if (!matcher.next(c).isEmpty()) {
                    begin();
                }
            }
            case HEAD -> head(c);
            case ARGUMENTS -> arguments(c);
            case OBJECT -> object(c);
            case AFTER_OBJECT -> afterObject(c);
        }
    }

    private void begin() {
        head.setLength(0);
        head.append(BEGIN);
        inList = false;
        state = State.HEAD;
    }

    private void text(char c) {
        if (state == State.TEXT) {
            parts.content(c);
        } else if (!call.isComplete()) {
            parts.arguments(c);
        }
    }

    private void head(char c) {
        String before = head.substring(BEGIN.length());
        if (before.isBlank() && (c == '[' || c == '{')) {
            inList = c == '[';
            state = State.OBJECT;
            call = CallObject.marked(parts);
            if (inList) {
                head.append(c);
            } else {
                object(c);
            }
            return;
        }
        if (c != '{') {
            head.append(c);
            if (head.length() > MAX_HEAD) {
                giveUp();
            }
            return;
        }
        Matcher name = HEAD.matcher(before);
        if (!name.matches()) {
            giveUp();
            next(c);
            return;
        }
        parts.call(name.group(1));
        call = CallObject.marked(parts);
        scanner = new JsonScanner();
        state = State.ARGUMENTS;
        arguments(c);
    }

    private void giveUp() {
        state = State.TEXT;
        parts.content(head);
        head.setLength(0);
    }

    private void arguments(char c) {
        switch (scanner.next(c)) {
            case MORE -> parts.arguments(c);
            case LAST -> {
                parts.arguments(c);
                state = State.TEXT;
            }
            case BEYOND, BROKEN -> breakCall(c);
        }
    }

    private void breakCall(char c) {
        state = State.BROKEN_CALL;
        next(c);
    }

    private void object(char c) {
        switch (call.next(c)) {
            case MORE -> head.append(c);
            case DONE -> {
                head.setLength(0);
                state = inList ? State.AFTER_OBJECT : State.TEXT;
            }
            case BROKEN -> {
                if (call.isStarted()) {
                    breakCall(c);
                } else if (c == ']' && head.toString().endsWith("[")) {
                    state = State.TEXT; // an empty list
                } else {
                    giveUp();
                    next(c);
                }
            }
        }
    }

    private void afterObject(char c) {
        head.append(c);
        if (c == ',') {
            call = CallObject.marked(parts);
            state = State.OBJECT;
        } else if (c == ']') {
            state = State.TEXT;
        } else if (!Character.isWhitespace(c)) {
            head.setLength(head.length() - 1);
            giveUp();
            next(c);
        }
    }

    @Override
    public void finish() {
        matcher.flush();
        if (state == State.HEAD || state == State.OBJECT && !call.isStarted()) {
            parts.content(head);
        }
    }
}
