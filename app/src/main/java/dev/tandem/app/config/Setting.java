package dev.tandem.app.config;

import java.util.Optional;

/**
 * The value of one option, and where it comes from.
 *
 * @param key of the option in configuration files
 * @param value as a user would write it; empty where none is set and the code chooses, or where it is a secret
 * @param secret whether a value is set and must not be printed
 */
public record Setting(String key, Optional<String> value, Source source, boolean secret) {
    Setting(String key, Optional<String> value, Source source) {
        this(key, value, source, false);
    }

    /** The setting without its value. */
    Setting hidden() {
        return new Setting(key, Optional.empty(), source, value.isPresent());
    }

    /** The value, or that it is not shown; empty where none is set. */
    Optional<String> shown() {
        return secret ? Optional.of(Secret.SHOWN) : value;
    }
}
