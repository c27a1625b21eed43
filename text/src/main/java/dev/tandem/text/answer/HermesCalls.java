package dev.tandem.text.answer;

import java.util.List;
import java.util.Set;
import java.util.regex.Pattern;

/**
 * Calls between {@code <tool_call>} and {@code </tool_call>}, as Hermes and Qwen write them.
 *
 * <p>Qwen2.5 Coder has a template with these markers and leaves them out: it puts calls into a code fence, or writes
 * them as the answer's first text. Such an object is a call when it names a tool of the request and has the keys of a
 * call alone; otherwise it is content.
 *
 * <p>Owned by: one parser.
 */
final class HermesCalls implements Stage {
    static final String BEGIN = "<tool_call>";
    static final String END = "</tool_call>";
    private static final String FENCE = "```";
    /** A fence, its language, and the start of a list. */
    private static final Pattern FENCE_HEAD = Pattern.compile("```\\w*\\s*\\[?\\s*");
    /** What may stand after a call without markers: models also close a brace too many. */
    private static final String SEPARATORS = ",;]}";

    private enum State {
        TEXT,
        /** After a code fence, before a call. */
        FENCE_HEAD,
        CALL,
        /** After a call's object; the end marker should follow. */
        AFTER_CALL,
        /** After a call without markers; another, or the fence's end, may follow. */
        AFTER_UNMARKED,
        /** In a call whose JSON is broken; it goes on until the end marker, or the fence's end. */
        BROKEN_CALL
    }

    private final PartBuffer parts;
    private final Set<String> tools;
    private final MarkerMatcher matcher;
    /** Text that is content unless the name of a call follows it. */
    private final StringBuilder head = new StringBuilder();

    private CallObject call;
    private boolean marked;
    /** Whether the answer has had nothing but white space. */
    private boolean first = true;

    private State state = State.TEXT;

    /** @param tools that calls without markers may name */
    HermesCalls(PartBuffer parts, Set<String> tools) {
        this.parts = parts;
        this.tools = tools;
        this.call = CallObject.marked(parts);
        this.matcher = new MarkerMatcher(List.of(BEGIN, END, FENCE), this::text);
    }

    @Override
    public void next(char c) {
        if (state == State.CALL) {
            call(c);
            return;
        }
        String marker = matcher.next(c);
        if (marker.equals(END) && (state == State.AFTER_CALL || state == State.BROKEN_CALL)) {
            state = State.TEXT;
        } else if (marker.equals(BEGIN) && state != State.BROKEN_CALL) {
            beginMarked();
        } else if (marker.equals(FENCE) && endsUnmarked()) {
            state = State.TEXT;
        } else if (marker.equals(FENCE) && state == State.TEXT) {
            head.append(FENCE);
            state = State.FENCE_HEAD;
        } else {
            marker.chars().forEach(m -> text((char) m));
        }
    }

    private boolean endsUnmarked() {
        return state == State.AFTER_UNMARKED || state == State.BROKEN_CALL && !marked;
    }

    private void beginMarked() {
        giveUp();
        head.append(BEGIN);
        call = CallObject.marked(parts);
        marked = true;
        state = State.CALL;
    }

    /** Makes what is held back content. */
    private void giveUp() {
        state = State.TEXT;
        parts.content(head);
        first &= head.isEmpty();
        head.setLength(0);
    }

    private void beginUnmarked() {
        call = CallObject.unmarked(parts, tools::contains);
        marked = false;
        state = State.CALL;
        call('{');
    }

    private void call(char c) {
        switch (call.next(c)) {
            case MORE -> {
                head.append(c);
                if (call.isStarted()) {
                    head.setLength(0);
                }
            }
            case DONE -> {
                head.setLength(0);
                first = false;
                state = marked ? State.AFTER_CALL : State.AFTER_UNMARKED;
            }
            case BROKEN -> {
                if (call.isStarted()) {
                    state = State.BROKEN_CALL;
                } else {
                    giveUp();
                }
                next(c);
            }
        }
    }

    private void text(char c) {
        switch (state) {
            case CALL -> call(c);
            case FENCE_HEAD -> {
                if (c == '{' && FENCE_HEAD.matcher(head).matches()) {
                    beginUnmarked();
                    return;
                }
                head.append(c);
                if (!FENCE_HEAD.matcher(head).matches()) {
                    giveUp();
                }
            }
            case AFTER_UNMARKED -> {
                if (c == '{') {
                    beginUnmarked();
                } else if (!Character.isWhitespace(c) && SEPARATORS.indexOf(c) < 0) {
                    state = State.TEXT;
                    parts.content(c);
                }
            }
            case TEXT, AFTER_CALL -> {
                if (c == '{' && first) {
                    beginUnmarked();
                } else {
                    first &= Character.isWhitespace(c);
                    parts.content(c);
                }
            }
            case BROKEN_CALL -> {
                if (!call.isComplete()) {
                    parts.arguments(c);
                }
            }
        }
    }

    @Override
    public void finish() {
        matcher.flush();
        parts.content(head);
    }
}
