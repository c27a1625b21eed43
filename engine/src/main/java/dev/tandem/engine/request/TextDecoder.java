package dev.tandem.engine.request;

import java.util.function.IntFunction;
import java.util.function.Supplier;

/**
 * Turns the tokens of one sequence into text, one by one. Stop strings are matched in the text that it returns.
 *
 * <p>Owned by: engine thread; one instance per sequence.
 */
public interface TextDecoder {
    /** The text that the token completes; empty when the token ends inside a character. */
    String append(int token);

    /** The text that is still held back, with incomplete characters replaced; the last call. */
    String finish();

    /** A decoder made of its two methods. */
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

    /** A decoder that returns no text, for callers that want token ids alone. */
    static TextDecoder none() {
        return of(token -> "", () -> "");
    }
}
