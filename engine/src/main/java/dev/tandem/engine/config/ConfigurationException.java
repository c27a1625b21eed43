package dev.tandem.engine.config;

/**
 * A value of an option, or a combination of options, that this machine or this model cannot serve.
 *
 * <p>The user can correct it: the message names the option, its value, the limit and the remedy. An argument that is
 * wrong because of a mistake in the code is an {@link IllegalArgumentException} instead.
 */
public final class ConfigurationException extends RuntimeException {
    /** Creates an exception for the user. */
    public ConfigurationException(String message) {
        super(message);
    }

    /** Creates an exception for the user that has a cause. */
    public ConfigurationException(String message, Throwable cause) {
        super(message, cause);
    }
}
