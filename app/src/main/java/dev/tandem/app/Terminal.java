package dev.tandem.app;

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
    private String shown = "";

    Terminal(PrintStream out, boolean interactive) {
        this.out = out;
        this.interactive = interactive;
    }

    static Terminal standardError() {
        return new Terminal(
                System.err, System.console() != null && System.console().isTerminal());
    }

    @Override
    public void at(String what, long done, long total) {
        bar(what, done, total, "MiB", 1 << 20);
    }

    /** Shows progress in numbers of items. */
    void count(String what, long done, long total) {
        bar(what, done, total, "", 1);
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
                + (unit.isEmpty() ? "" : " " + unit);
        if (interactive) {
            out.print("\r" + what + " [" + "#".repeat(filled) + ".".repeat(WIDTH - filled) + "] " + amount);
            out.print(end ? "\n" : "");
        } else {
            out.println(what + " " + amount);
        }
        out.flush();
    }
}
