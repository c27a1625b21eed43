package dev.tandem.text;

/**
 * Converts text to token ids and back.
 *
 * <p>Owned by: thread-safe.
 */
public interface Tokenizer extends AutoCloseable {
    /**
     * The token ids of a text.
     *
     * @param addSpecial whether special tokens, such as the model's begin-of-sequence token, are added
     * @throws TokenizerException when the text is too long for one call, or cannot be encoded
     */
    int[] encode(String text, boolean addSpecial);

    Vocabulary vocabulary();

    /** The text of all tokens. */
    default String decode(int[] tokens, boolean skipSpecial) {
        StreamingDetokenizer detokenizer = new StreamingDetokenizer(vocabulary(), skipSpecial);
        StringBuilder text = new StringBuilder();
        for (int token : tokens) {
            text.append(detokenizer.append(token));
        }
        return text.append(detokenizer.finish()).toString();
    }

    @Override
    void close();
}
