package dev.tandem.text.answer;

import java.util.List;

/**
 * Splits off reasoning between two markers at the start of an answer. What follows goes to the next stage.
 *
 * <p>Owned by: one parser.
 */
final class ReasoningStage implements Stage {
    private enum State {
        START,
        REASONING,
        ANSWER
    }

    private final PartBuffer parts;
    private final String begin;
    private final Stage answer;
    private final MarkerMatcher matcher;
    private final StringBuilder space = new StringBuilder();
    private State state;

    /** @param open whether the prompt ends with the begin marker, so that the answer starts with reasoning */
    ReasoningStage(PartBuffer parts, String begin, String end, boolean open, Stage answer) {
        this.parts = parts;
        this.begin = begin;
        this.answer = answer;
        this.state = open ? State.REASONING : State.START;
        this.matcher = new MarkerMatcher(List.of(begin, end), this::text);
    }

    @Override
    public void next(char c) {
        if (state == State.ANSWER) {
            answer.next(c);
            return;
        }
        String marker = matcher.next(c);
        if (state == State.ANSWER) {
            matcher.flush(); // text that is no reasoning has been found; what is held belongs to it
        } else if (marker.equals(begin)) {
            state = State.REASONING; // models repeat a marker that the prompt ends with
        } else if (!marker.isEmpty()) {
            if (state == State.REASONING) {
                parts.endReasoning();
                state = State.ANSWER;
            } else {
                marker.chars().forEach(m -> text((char) m));
            }
        }
    }

    private void text(char c) {
        switch (state) {
            case START -> {
                space.append(c);
                if (!Character.isWhitespace(c)) {
                    state = State.ANSWER;
                    space.chars().forEach(s -> answer.next((char) s));
                }
            }
            case REASONING -> parts.reasoning(c);
            case ANSWER -> answer.next(c);
        }
    }

    @Override
    public void finish() {
        matcher.flush();
        if (state == State.START) {
            space.chars().forEach(s -> answer.next((char) s));
        }
        answer.finish();
    }

    @Override
    public boolean isReasoning() {
        return state == State.REASONING;
    }
}
