package dev.tandem.text;

/** Text to token ids and back. Thread-safe. */
public interface Tokenizer extends AutoCloseable {
    /**
     * The token ids of a text.
     *
     * @param addSpecial whether the model's begin-of-sequence token and the like are added
     * @throws TokenizerException when the text is longer than the tokenizer takes at once, or has no tokens
     */
    int[] encode(String text, boolean addSpecial);

    Vocabulary vocabulary();

    /** All of it at once. */
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
