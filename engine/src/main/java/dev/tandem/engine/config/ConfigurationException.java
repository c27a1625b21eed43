package dev.tandem.engine.config;

/**
 * An option, or several together, that this machine or this model cannot serve. The user can mend it: the message names
 * the option, its value, the limit and the remedy. An argument that is wrong by a mistake in the code is an
 * {@link IllegalArgumentException} instead.
 */
public final class ConfigurationException extends RuntimeException {
    public ConfigurationException(String message) {
        super(message);
    }

    public ConfigurationException(String message, Throwable cause) {
        super(message, cause);
    }
}
