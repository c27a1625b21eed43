package dev.tandem.app;

import java.util.logging.Level;

/** The values of {@code --log-level}. */
enum LogLevel {
    DEBUG(Level.FINE),
    INFO(Level.INFO),
    WARNING(Level.WARNING),
    ERROR(Level.SEVERE);

    final Level level;

    LogLevel(Level level) {
        this.level = level;
    }
}
