package dev.tandem.engine.request;

/**
 * Turns one sequence's tokens into text as they come; stop strings are matched on what it returns. One instance a
 * sequence, called by the engine thread only.
 */
public interface TextDecoder {
    /** The text this token completes; empty while it ends inside a character. */
    String append(int token);

    /** What is still held back, with incomplete characters replaced; the decoder is done after this. */
    String finish();

    /** For callers that want token ids alone. */
    static TextDecoder none() {
        return new TextDecoder() {
            @Override
            public String append(int token) {
                return "";
            }

            @Override
            public String finish() {
                return "";
            }
        };
    }
}
