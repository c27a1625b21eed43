package dev.tandem.text.answer;

import java.util.ArrayList;
import java.util.List;

/**
 * Collects the parts that a parser recognises and joins adjacent text of the same kind.
 *
 * <p>White space is held back until text of the same kind follows it. What surrounds markers and calls is dropped with
 * that: templates put it there, and it is not part of the answer.
 *
 * <p>Owned by: one parser.
 */
final class PartBuffer {
    private enum Kind {
        NONE,
        REASONING,
        CONTENT,
        ARGUMENTS
    }

    /** White space that waits for text of its kind. */
    private static final class Held {
        final StringBuilder space = new StringBuilder();
        boolean hasText;
        /** Whether white space before the first text is dropped. */
        boolean strips;
        /** Whether the next text begins a message on a line of its own. */
        boolean newLine;

        /** The text to write now. */
        String add(char c) {
            if (Character.isWhitespace(c)) {
                space.append(c);
                return "";
            }
            String before = newLine ? "\n" : hasText || !strips ? space.toString() : "";
            space.setLength(0);
            hasText = true;
            newLine = false;
            return before + c;
        }

        void endMessage() {
            newLine = hasText;
        }
    }

    private final boolean mayCall;
    private final boolean parallel;
    private final List<AnswerPart> parts = new ArrayList<>();
    private final StringBuilder text = new StringBuilder();
    private final Held reasoning = new Held();
    private final Held content = new Held();
    private Kind kind = Kind.NONE;
    private int calls;
    private boolean hasArguments;

    /**
     * @param mayCall whether the answer may have calls; only then may white space at the end be dropped
     * @param parallel whether calls after the first are kept
     */
    PartBuffer(boolean mayCall, boolean parallel) {
        this.mayCall = mayCall;
        this.parallel = parallel;
        reasoning.strips = true;
    }

    int calls() {
        return parallel ? calls : Math.min(calls, 1);
    }

    void reasoning(char c) {
        write(Kind.REASONING, reasoning.add(c));
    }

    /** Ends a message of reasoning. */
    void endReasoning() {
        reasoning.endMessage();
        content.strips = true;
    }

    void content(char c) {
        if (mayCall || content.strips) {
            write(Kind.CONTENT, content.add(c));
        } else {
            write(Kind.CONTENT, String.valueOf(c));
        }
    }

    void content(CharSequence sequence) {
        sequence.chars().forEach(c -> content((char) c));
    }

    /** Ends a message of content. */
    void endContent() {
        content.endMessage();
    }

    void call(String name) {
        flush();
        calls++;
        hasArguments = false;
        content.strips = true;
        if (isKept()) {
            parts.add(new AnswerPart.Call(calls - 1, name));
        }
    }

    void arguments(char c) {
        arguments(String.valueOf(c));
    }

    /** White space before the arguments is dropped: a call that has nothing else has none. */
    void arguments(String piece) {
        if (!hasArguments && piece.isBlank()) {
            return;
        }
        hasArguments = true;
        if (isKept()) {
            write(Kind.ARGUMENTS, piece);
        }
    }

    /** Ends a call; one without arguments gets an empty object. */
    void endCall() {
        if (!hasArguments) {
            arguments("{}");
        }
    }

    private boolean isKept() {
        return parallel || calls == 1;
    }

    private void write(Kind of, String piece) {
        if (!piece.isEmpty()) {
            if (of != kind) {
                flush();
                kind = of;
            }
            text.append(piece);
        }
    }

    private void flush() {
        if (!text.isEmpty()) {
            parts.add(
                    switch (kind) {
                        case REASONING -> new AnswerPart.Reasoning(text.toString());
                        case CONTENT -> new AnswerPart.Content(text.toString());
                        case ARGUMENTS -> new AnswerPart.Arguments(calls - 1, text.toString());
                        case NONE -> throw new IllegalStateException("text without a kind");
                    });
            text.setLength(0);
        }
        kind = Kind.NONE;
    }

    /**
     * Ends the answer. White space at the end belongs to an answer without calls.
     *
     * @param complete whether the model ended it: then a call whose end is no text is complete, too
     */
    void finish(boolean complete) {
        if (complete && calls > 0) {
            endCall();
        }
        if (calls == 0 && (content.hasText || !content.strips)) {
            write(Kind.CONTENT, content.space.toString());
        }
    }

    List<AnswerPart> take() {
        flush();
        List<AnswerPart> taken = List.copyOf(parts);
        parts.clear();
        return taken;
    }
}
