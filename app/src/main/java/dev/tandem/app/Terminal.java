package dev.tandem.app;

import dev.tandem.engine.clock.Clock;
import dev.tandem.fetch.Progress;
import java.io.PrintStream;
import java.util.Locale;

/**
 * Shows the progress of work that takes more than a second: on a terminal as a bar, elsewhere as a line every ten
 * seconds. Both tell the time left.
 *
 * <p>Owned by: the thread that does the work.
 */
final class Terminal implements Progress {
    private static final int WIDTH = 30;
    /** Work that ends earlier is not shown; nobody waits for it. */
    private static final long FIRST_BAR_NANOS = 1_000_000_000;
    /** A bar that changes more often flickers, and costs more than it tells. */
    private static final long BAR_NANOS = 100_000_000;
    /** Lines stay in a log, so that there are few of them. */
    private static final long LINE_NANOS = 10_000_000_000L;

    private final PrintStream out;
    private final boolean interactive;
    private final Clock clock;
    private String started = "";
    private long startNanos;
    private long startDone;
    private boolean shown;
    private long shownNanos;

    /** @param interactive whether {@code out} is a terminal */
    Terminal(PrintStream out, boolean interactive, Clock clock) {
        this.out = out;
        this.interactive = interactive;
        this.clock = clock;
    }

    static Terminal standardError() {
        return new Terminal(System.err, StandardError.isTerminal(), Clock.system());
    }

    /** Shows progress in bytes, with their rate. */
    @Override
    public void at(String what, long done, long total) {
        at(what, done, total, "MiB", 1 << 20);
    }

    /** Shows progress in numbers of items. */
    void count(String what, long done, long total) {
        at(what, done, total, "", 1);
    }

    private void at(String what, long done, long total, String unit, long scale) {
        long now = clock.nanos();
        if (!what.equals(started)) {
            started = what;
            startNanos = now;
            startDone = done;
            shown = false;
        }
        boolean end = total > 0 && done >= total;
        if (end ? shown : isDue(now)) {
            shown = true;
            shownNanos = now;
            print(what, done, total, unit, scale, now - startNanos);
        }
        if (end) {
            started = "";
        }
    }

    private boolean isDue(long now) {
        if (!interactive) {
            return now - (shown ? shownNanos : startNanos) >= LINE_NANOS;
        }
        return shown ? now - shownNanos >= BAR_NANOS : now - startNanos >= FIRST_BAR_NANOS;
    }

    private void print(String what, long done, long total, String unit, long scale, long nanos) {
        String amount = String.format(Locale.ROOT, "%,d", done / scale)
                + (total > 0 ? String.format(Locale.ROOT, " / %,d", total / scale) : "")
                + (unit.isEmpty() ? "" : " " + unit)
                + speed(done, total, nanos / 1e9, unit.isEmpty());
        if (interactive) {
            int filled = total > 0 ? (int) (WIDTH * done / total) : 0;
            // blanks cover the rest of a longer line before
            out.print("\r" + what + " [" + "#".repeat(filled) + ".".repeat(WIDTH - filled) + "] " + amount + "     ");
            out.print(total > 0 && done >= total ? "\n" : "");
        } else {
            out.println(what + " " + amount);
        }
        out.flush();
    }

    /** The rate of bytes since the first call, and the time left at that rate. */
    private String speed(long done, long total, double seconds, boolean items) {
        if (done <= startDone || seconds <= 0) {
            return "";
        }
        double rate = (done - startDone) / seconds;
        long left = total > done ? (long) Math.ceil((total - done) / rate) : 0;
        return (items ? "" : String.format(Locale.ROOT, ", %.1f MiB/s", rate / (1 << 20)))
                + (left == 0 ? "" : String.format(Locale.ROOT, ", %d:%02d left", left / 60, left % 60));
    }
}
