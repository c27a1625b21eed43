package dev.tandem.app;

import dev.tandem.server.http.Printable;
import java.io.PrintStream;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * What a command says while an engine starts: rows of a summary, which are printed together once all are known; notices
 * and, where details are asked for, details, which are printed at once.
 *
 * <p>Owned by: the thread that starts the engine.
 */
final class StartLog {
    private final PrintStream out;
    private final boolean details;
    private final Map<String, String> rows = new LinkedHashMap<>();

    StartLog(PrintStream out, boolean details) {
        this.out = out;
        this.details = details;
    }

    /** A row of the summary. */
    void row(String label, String text) {
        rows.put(label, text);
    }

    /** What is not as one may expect: what happened, why, and what to do. */
    void notice(String sentences) {
        out.println("note: " + Printable.oneLine(sentences));
    }

    /** What takes time now. */
    void progress(String line) {
        out.println(Printable.oneLine(line));
    }

    /** What helps to find a cause. */
    void detail(Object line) {
        if (details) {
            out.println(line);
        }
    }

    /** The rows so far, aligned. */
    String summary() {
        int width = rows.keySet().stream().mapToInt(String::length).max().orElse(0);
        StringBuilder text = new StringBuilder();
        rows.forEach((label, row) -> text.append(label)
                .append(" ".repeat(width + 2 - label.length()))
                .append(Printable.oneLine(row))
                .append(System.lineSeparator()));
        return text.toString();
    }

    /** For commands without an address to announce. */
    void printSummary() {
        out.print(summary());
        out.flush();
    }
}
