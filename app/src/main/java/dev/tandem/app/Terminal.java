package dev.tandem.app;

import dev.tandem.engine.clock.Clock;
import dev.tandem.fetch.Progress;
import java.io.PrintStream;
import java.util.Locale;

/**
 * Shows progress on standard error: as a bar on a terminal, otherwise as one line per tenth of the work.
 *
 * <p>Owned by: the thread that does the work.
 */
final class Terminal implements Progress {
    private static final int WIDTH = 30;

    private final PrintStream out;
    private final boolean interactive;
    private final Clock clock;
    private String shown = "";
    private String started = "";
    private long startNanos;
    private long startDone;

    Terminal(PrintStream out, boolean interactive, Clock clock) {
        this.out = out;
        this.interactive = interactive;
        this.clock = clock;
    }

    static Terminal standardError() {
        return new Terminal(
                System.err, System.console() != null && System.console().isTerminal(), Clock.system());
    }

    @Override
    public void at(String what, long done, long total) {
        if (!what.equals(started)) {
            started = what;
            startNanos = clock.nanos();
            startDone = done;
        }
        bar(what, done, total, "MiB", 1 << 20);
    }

    /** Shows progress in numbers of items. */
    void count(String what, long done, long total) {
        bar(what, done, total, "", 1);
    }

    /** The rate since the first call, and the time left at that rate. */
    private String speed(long done, long total) {
        double seconds = (clock.nanos() - startNanos) / 1e9;
        if (done <= startDone || seconds <= 0) {
            return "";
        }
        double rate = (done - startDone) / seconds;
        long left = total > done ? (long) Math.ceil((total - done) / rate) : 0;
        return String.format(Locale.ROOT, ", %.1f MiB/s", rate / (1 << 20))
                + (left == 0 ? "" : String.format(Locale.ROOT, ", %d:%02d left", left / 60, left % 60));
    }

    private void bar(String what, long done, long total, String unit, long scale) {
        int tenths = total > 0 ? (int) (10 * done / total) : 0;
        int filled = total > 0 ? (int) (WIDTH * done / total) : 0;
        String key = what + (interactive ? ":" + (total > 0 ? 200 * done / total : done / scale) : ":" + tenths);
        boolean end = total > 0 && done >= total;
        if (key.equals(shown) && !end) {
            return;
        }
        shown = key;
        String amount = String.format(Locale.ROOT, "%,d", done / scale)
                + (total > 0 ? String.format(Locale.ROOT, " / %,d", total / scale) : "")
                + (unit.isEmpty() ? "" : " " + unit + speed(done, total));
        if (interactive) {
            // blanks cover the rest of a longer line before
            out.print("\r" + what + " [" + "#".repeat(filled) + ".".repeat(WIDTH - filled) + "] " + amount + "     ");
            out.print(end ? "\n" : "");
        } else {
            out.println(what + " " + amount);
        }
        out.flush();
    }
}
