package dev.tandem.text.answer;

/**
 * A stage of an {@link AnswerParser}: it takes the answer's characters one by one.
 *
 * <p>Owned by: one parser.
 */
interface Stage {
    void next(char c);

    /** Releases what is held back; the last call. */
    void finish();

    /** Whether the model is reasoning. */
    default boolean isReasoning() {
        return false;
    }
}
