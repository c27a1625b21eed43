package dev.tandem.text.answer;

import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Messages of gpt-oss's harmony format: {@code <|start|>assistant<|channel|>NAME to=RECIPIENT<|message|>TEXT<|end|>}.
 * The channel {@code analysis} is reasoning; a message with a recipient is a call; all else is content. The prompt ends
 * with {@code <|start|>assistant}, so the answer begins within a header.
 *
 * <p>Owned by: one parser.
 */
final class HarmonyStage implements Stage {
    private static final String START = "<|start|>";
    private static final String CHANNEL = "<|channel|>";
    private static final String MESSAGE = "<|message|>";
    private static final String CONSTRAIN = "<|constrain|>";
    /** What ends a message. */
    private static final List<String> ENDS = List.of("<|end|>", "<|call|>", "<|return|>");

    static final List<String> MARKERS =
            List.of(START, CHANNEL, MESSAGE, CONSTRAIN, ENDS.get(0), ENDS.get(1), ENDS.get(2));
    private static final Pattern RECIPIENT = Pattern.compile("\\bto=(?:functions\\.)?([^\\s<]+)");
    private static final Pattern ANALYSIS = Pattern.compile(Pattern.quote(CHANNEL) + "\\s*analysis\\b");

    private enum State {
        HEADER,
        REASONING,
        CONTENT,
        CALL,
        /** After a message. */
        BETWEEN
    }

    private final PartBuffer parts;
    private final boolean mayCall;
    private final MarkerMatcher matcher = new MarkerMatcher(MARKERS, this::text);
    private final StringBuilder header = new StringBuilder();
    private State state = State.HEADER;

    /** @param mayCall whether a message with a recipient is a call */
    HarmonyStage(PartBuffer parts, boolean mayCall) {
        this.parts = parts;
        this.mayCall = mayCall;
    }

    @Override
    public void next(char c) {
        String marker = matcher.next(c);
        if (marker.isEmpty()) {
            return;
        }
        if (marker.equals(START) || marker.equals(CHANNEL) && state != State.HEADER) {
            endMessage();
            state = State.HEADER;
            header.setLength(0);
            header.append(marker);
        } else if (ENDS.contains(marker)) {
            endMessage();
            state = State.BETWEEN;
        } else if (state == State.HEADER && marker.equals(MESSAGE)) {
            beginMessage();
        } else if (state == State.HEADER) {
            header.append(marker);
        } else {
            marker.chars().forEach(m -> text((char) m));
        }
    }

    private void beginMessage() {
        Matcher recipient = RECIPIENT.matcher(header);
        if (mayCall && recipient.find()) {
            parts.call(recipient.group(1));
            state = State.CALL;
        } else {
            state = ANALYSIS.matcher(header).find() ? State.REASONING : State.CONTENT;
        }
    }

    private void text(char c) {
        switch (state) {
            case HEADER -> header(c);
            case REASONING -> parts.reasoning(c);
            case CONTENT -> parts.content(c);
            case CALL -> parts.arguments(c);
            case BETWEEN -> {}
        }
    }

    private void header(char c) {
        header.append(c);
        String text = header.toString().stripLeading();
        boolean couldBeHeader =
                MARKERS.stream().anyMatch(text::startsWith) || "to=".startsWith(text) || text.startsWith("to=");
        if (!couldBeHeader) {
            state = State.CONTENT; // the model does not keep to the format
            parts.content(header);
        }
    }

    private void endMessage() {
        switch (state) {
            case REASONING -> parts.endReasoning();
            case CONTENT -> parts.endContent();
            case CALL -> parts.endCall();
            case HEADER, BETWEEN -> {}
        }
    }

    @Override
    public void finish() {
        matcher.flush();
    }

    @Override
    public boolean isReasoning() {
        return state == State.REASONING;
    }
}
