package dev.tandem.library;

/** An answer that ended with an error; the message says why. */
public final class AnswerException extends RuntimeException {
    AnswerException(String message) {
        super(message);
    }
}
