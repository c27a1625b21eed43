package dev.tandem.text.answer;

import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Calls as Gemma writes them: {@code <|tool_call>call:name{key:<|"|>text<|"|>}<tool_call|>} in Gemma 4, and
 * {@code <start_function_call>call:name{key:<escape>text<escape>}<end_function_call>} in FunctionGemma. The arguments
 * are translated to JSON.
 *
 * <p>Owned by: one parser.
 */
final class GemmaCalls implements Stage {
    static final List<String> BEGIN = List.of("<|tool_call>", "<start_function_call>");
    static final List<String> END = List.of("<tool_call|>", "<end_function_call>");
    private static final Pattern HEAD = Pattern.compile("\\s*call:\\s*([\\w.:/-]+)\\s*");
    /** Longer heads are content. */
    private static final int MAX_HEAD = 300;

    private enum State {
        TEXT,
        HEAD,
        ARGUMENTS,
        /** After the arguments; the end marker should follow. */
        AFTER_CALL
    }

    private final PartBuffer parts;
    private final MarkerMatcher matcher;
    private final StringBuilder head = new StringBuilder();
    private GemmaArguments arguments;
    private State state = State.TEXT;

    GemmaCalls(PartBuffer parts) {
        this.parts = parts;
        this.arguments = new GemmaArguments(parts);
        this.matcher = new MarkerMatcher(
                List.of(
                        BEGIN.get(0),
                        BEGIN.get(1),
                        END.get(0),
                        END.get(1),
                        GemmaArguments.QUOTES.get(0),
                        GemmaArguments.QUOTES.get(1)),
                this::text);
    }

    @Override
    public void next(char c) {
        String marker = matcher.next(c);
        if (marker.isEmpty()) {
            return;
        }
        if (state == State.ARGUMENTS && GemmaArguments.QUOTES.contains(marker)) {
            arguments.quote();
        } else if (END.contains(marker) && (state == State.ARGUMENTS || state == State.AFTER_CALL)) {
            state = State.TEXT;
        } else if (BEGIN.contains(marker) && (state == State.TEXT || state == State.AFTER_CALL)) {
            head.setLength(0);
            head.append(marker);
            state = State.HEAD;
        } else {
            marker.chars().forEach(m -> text((char) m));
        }
    }

    private void text(char c) {
        switch (state) {
            case TEXT, AFTER_CALL -> parts.content(c);
            case HEAD -> head(c);
            case ARGUMENTS -> {
                arguments.next(c);
                if (arguments.isComplete()) {
                    state = State.AFTER_CALL;
                }
            }
        }
    }

    private void head(char c) {
        Matcher name = HEAD.matcher(head.substring(head.indexOf(">") + 1));
        if (c == '{' && name.matches()) {
            parts.call(name.group(1));
            arguments = new GemmaArguments(parts);
            state = State.ARGUMENTS;
            text(c);
            return;
        }
        head.append(c);
        if (c == '{' || head.length() > MAX_HEAD) {
            state = State.TEXT;
            parts.content(head);
        }
    }

    @Override
    public void finish() {
        matcher.flush();
        if (state == State.HEAD) {
            parts.content(head);
        }
    }
}
