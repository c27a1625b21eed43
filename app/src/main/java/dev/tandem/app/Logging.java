package dev.tandem.app;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.time.Instant;
import java.time.ZoneId;
import java.time.format.DateTimeFormatter;
import java.util.logging.ConsoleHandler;
import java.util.logging.Formatter;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogManager;
import java.util.logging.LogRecord;
import java.util.logging.Logger;

/** One line a record, on standard error. */
final class Logging {
    private static final DateTimeFormatter TIME =
            DateTimeFormatter.ofPattern("HH:mm:ss.SSS").withZone(ZoneId.systemDefault());

    private Logging() {}

    static void install() {
        LogManager.getLogManager().reset();
        Handler handler = new ConsoleHandler();
        handler.setLevel(Level.INFO);
        handler.setFormatter(new Formatter() {
            @Override
            public String format(LogRecord record) {
                String line = TIME.format(Instant.ofEpochMilli(record.getMillis())) + " " + record.getLevel() + " "
                        + formatMessage(record) + System.lineSeparator();
                return record.getThrown() == null ? line : line + stackTrace(record.getThrown());
            }
        });
        Logger.getLogger("").addHandler(handler);
        Logger.getLogger("ai.djl").setLevel(Level.WARNING);
    }

    private static String stackTrace(Throwable thrown) {
        StringWriter text = new StringWriter();
        thrown.printStackTrace(new PrintWriter(text));
        return text.toString();
    }
}
