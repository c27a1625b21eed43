package dev.tandem.text.answer;

import java.util.List;

/**
 * Splits the text of one answer, which arrives in pieces, into parts.
 *
 * <p>Every character is taken alone, so the parts do not depend on where the pieces were cut. Only text that may still
 * become a marker, or the head of a call, is held back.
 *
 * <p>A call whose name cannot be read is content, as the model wrote it. From then on the arguments are passed as the
 * model wrote them, valid or not: they may have been sent already, and the client can tell the model what is wrong.
 *
 * <p>Owned by: the thread that writes the answer.
 */
public final class AnswerParser {
    private final PartBuffer parts;
    private final Stage first;

    AnswerParser(PartBuffer parts, Stage first) {
        this.parts = parts;
        this.first = first;
    }

    /** The parts that this text completes; adjacent text of the same kind is one part. */
    public List<AnswerPart> append(String text) {
        for (int i = 0; i < text.length(); i++) {
            first.next(text.charAt(i));
        }
        return parts.take();
    }

    /**
     * The parts that were still held back; the last call.
     *
     * @param complete whether the model ended the answer; one that was cut may have a call without arguments
     */
    public List<AnswerPart> finish(boolean complete) {
        first.finish();
        parts.finish(complete);
        return parts.take();
    }

    /** Whether the model is reasoning after the text so far. */
    public boolean isReasoning() {
        return first.isReasoning();
    }

    /** Number of calls so far. */
    public int calls() {
        return parts.calls();
    }
}
