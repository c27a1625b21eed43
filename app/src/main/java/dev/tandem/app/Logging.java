package dev.tandem.app;

import dev.tandem.engine.clock.Clock;
import dev.tandem.server.http.AccessLog;
import dev.tandem.server.http.Printable;
import java.time.Instant;
import java.time.ZoneId;
import java.time.format.DateTimeFormatter;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.Set;
import java.util.logging.ConsoleHandler;
import java.util.logging.Formatter;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogManager;
import java.util.logging.LogRecord;
import java.util.logging.Logger;

/** Writes one line per log record to standard error, with date and time, followed by its stack trace if any. */
final class Logging {
    private static final DateTimeFormatter TIME =
            DateTimeFormatter.ofPattern("yyyy-MM-dd HH:mm:ss.SSS").withZone(ZoneId.systemDefault());
    // held here, because the JVM collects a logger without references, and its level with it
    private static final Logger TOKENIZERS = Logger.getLogger("ai.djl");
    private static final Logger TANDEM = Logger.getLogger("dev.tandem");
    private static final Logger ACCESS = Logger.getLogger("dev.tandem.access");

    private Logging() {}

    static void install() {
        LogManager.getLogManager().reset();
        Logger root = Logger.getLogger("");
        root.setLevel(Level.INFO);
        Handler handler = new ConsoleHandler();
        handler.setLevel(Level.ALL); // the level is set on the loggers
        handler.setFormatter(new Lines());
        root.addHandler(handler);
        TOKENIZERS.setLevel(Level.WARNING);
    }

    /** Sets {@code --log-level}; libraries are limited to info, because their debug lines would hide Tandem's. */
    static void level(LogLevel level) {
        TANDEM.setLevel(level.level);
        Logger.getLogger("").setLevel(level == LogLevel.DEBUG ? Level.INFO : level.level);
    }

    /** Turns on {@code --log-requests}, which does not depend on the log level. */
    static AccessLog accessLog() {
        ACCESS.setLevel(Level.INFO);
        return AccessLog.to(Clock.system(), line -> ACCESS.log(Level.INFO, line));
    }

    /** Escapes text from clients and files, so that it cannot look like a log record. */
    static final class Lines extends Formatter {
        @Override
        public String format(LogRecord record) {
            StringBuilder out = new StringBuilder();
            out.append(TIME.format(Instant.ofEpochMilli(record.getMillis())))
                    .append(' ')
                    .append(name(record.getLevel()))
                    .append(' ')
                    .append(Printable.escape(formatMessage(record)))
                    .append('\n');
            if (record.getThrown() != null) {
                append(out, "", record.getThrown(), Collections.newSetFromMap(new IdentityHashMap<>()));
            }
            return out.toString();
        }

        /** The level's name, as in {@code --log-level}. */
        private static String name(Level level) {
            return switch (level.getName()) {
                case "SEVERE" -> "ERROR";
                case "FINE" -> "DEBUG";
                default -> level.getName();
            };
        }

        private static void append(StringBuilder out, String label, Throwable thrown, Set<Throwable> shown) {
            out.append(label).append(Printable.escape(thrown.toString())).append('\n');
            if (!shown.add(thrown)) {
                return; // the causes form a cycle
            }
            for (StackTraceElement frame : thrown.getStackTrace()) {
                out.append("\tat ").append(frame).append('\n');
            }
            for (Throwable suppressed : thrown.getSuppressed()) {
                append(out, "\tsuppressed: ", suppressed, shown);
            }
            if (thrown.getCause() != null) {
                append(out, "\tcaused by: ", thrown.getCause(), shown);
            }
        }
    }
}
