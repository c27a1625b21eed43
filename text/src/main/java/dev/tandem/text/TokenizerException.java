package dev.tandem.text;

/** A tokenizer that cannot be loaded, or text it cannot take. */
public final class TokenizerException extends RuntimeException {
    public TokenizerException(String message) {
        super(message);
    }

    public TokenizerException(String message, Throwable cause) {
        super(message, cause);
    }
}
