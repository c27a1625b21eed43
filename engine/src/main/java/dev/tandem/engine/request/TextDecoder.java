package dev.tandem.engine.request;

import java.util.function.IntFunction;
import java.util.function.Supplier;

/**
 * Turns one sequence's tokens into text as they come; stop strings are matched on what it returns. One instance a
 * sequence, called by the engine thread only.
 */
public interface TextDecoder {
    /** The text this token completes; empty while it ends inside a character. */
    String append(int token);

    /** What is still held back, with incomplete characters replaced; the decoder is done after this. */
    String finish();

    /** From its two parts. */
    static TextDecoder of(IntFunction<String> append, Supplier<String> finish) {
        return new TextDecoder() {
            @Override
            public String append(int token) {
                return append.apply(token);
            }

            @Override
            public String finish() {
                return finish.get();
            }
        };
    }

    /** For callers that want token ids alone. */
    static TextDecoder none() {
        return of(token -> "", () -> "");
    }
}
