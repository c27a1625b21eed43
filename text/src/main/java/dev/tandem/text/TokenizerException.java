package dev.tandem.text;

/** A tokenizer cannot be loaded, or cannot encode a text. */
public final class TokenizerException extends RuntimeException {
    public TokenizerException(String message) {
        super(message);
    }

    public TokenizerException(String message, Throwable cause) {
        super(message, cause);
    }
}
