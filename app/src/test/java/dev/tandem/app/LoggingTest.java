package dev.tandem.app;

import static org.assertj.core.api.Assertions.assertThat;

import java.lang.ref.WeakReference;
import java.util.logging.Level;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import org.junit.jupiter.api.Test;

class LoggingTest {
    private final Logging.Lines lines = new Logging.Lines();

    @Test
    void aLineCarriesDateTimeAndLevel() {
        assertThat(lines.format(new LogRecord(Level.WARNING, "all is well")))
                .matches("\\d{4}-\\d\\d-\\d\\d \\d\\d:\\d\\d:\\d\\d\\.\\d{3} WARNING all is well\n");
    }

    @Test
    void levelsHaveTheNamesOfTheOption() {
        assertThat(lines.format(new LogRecord(Level.SEVERE, "x"))).endsWith(" ERROR x\n");
        assertThat(lines.format(new LogRecord(Level.FINE, "x"))).endsWith(" DEBUG x\n");
    }

    @Test
    void aLevelHidesWhatIsLessSevereButNotTheAccessLog() {
        Level root = Logger.getLogger("").getLevel();
        try {
            Logging.level(LogLevel.WARNING);
            Logging.accessLog();
            assertThat(Logger.getLogger("dev.tandem.engine").isLoggable(Level.INFO))
                    .isFalse();
            assertThat(Logger.getLogger("dev.tandem.engine").isLoggable(Level.WARNING))
                    .isTrue();
            assertThat(Logger.getLogger("io.netty").isLoggable(Level.INFO)).isFalse();
            assertThat(Logger.getLogger("dev.tandem.access").isLoggable(Level.INFO))
                    .isTrue();
            Logging.level(LogLevel.DEBUG);
            assertThat(Logger.getLogger("dev.tandem.engine").isLoggable(Level.FINE))
                    .isTrue();
            assertThat(Logger.getLogger("io.netty").isLoggable(Level.FINE)).isFalse();
        } finally {
            Logger.getLogger("").setLevel(root);
            Logger.getLogger("dev.tandem").setLevel(null);
            Logger.getLogger("dev.tandem.access").setLevel(null);
        }
    }

    @Test
    void whatOthersSayCannotForgeARecord() {
        LogRecord record =
                new LogRecord(Level.WARNING, "unknown field x\n2026-11-24 10:00:00.000 INFO paid\r\u001b[2K\u2028");
        record.setThrown(new IllegalStateException("1\n2\u001b[1m", new RuntimeException("\n3")));
        String text = lines.format(record);
        assertThat(text.lines().findFirst().orElseThrow())
                .endsWith("WARNING unknown field x\\n2026-11-24 10:00:00.000 INFO paid\\r\\u001b[2K\\u2028");
        assertThat(text)
                .doesNotContain("\u001b")
                .contains("IllegalStateException: 1\\n2\\u001b[1m")
                .contains("\tcaused by: ");
        assertThat(text.lines().skip(2)).allMatch(line -> line.startsWith("\t"));
    }

    @Test
    void aCircleOfCausesEnds() {
        IllegalStateException one = new IllegalStateException("one");
        one.initCause(new IllegalStateException("two", one));
        LogRecord record = new LogRecord(Level.WARNING, "both");
        record.setThrown(one);
        assertThat(lines.format(record).lines()).hasSizeLessThan(500);
    }

    @Test
    void theTokenizerLibraryStaysQuietWhenTheCollectorHasRun() {
        Level root = Logger.getLogger("").getLevel();
        var handlers = Logger.getLogger("").getHandlers();
        try {
            Logging.install();
            WeakReference<Object> unheld = new WeakReference<>(new Object());
            while (unheld.get() != null) {
                System.gc();
            }
            assertThat(Logger.getLogger("ai.djl").getLevel()).isEqualTo(Level.WARNING);
        } finally {
            Logger.getLogger("").setLevel(root);
            for (var handler : Logger.getLogger("").getHandlers()) {
                Logger.getLogger("").removeHandler(handler);
            }
            for (var handler : handlers) {
                Logger.getLogger("").addHandler(handler);
            }
        }
    }
}
