package dev.tandem.app;

import dev.tandem.engine.clock.Clock;
import dev.tandem.model.Checkpoint;
import dev.tandem.server.http.Printable;
import java.io.PrintStream;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * Prints messages while an engine starts. Rows of the summary are collected and printed together at the end. Notices,
 * progress and (if requested) details are printed at once.
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

    /** Adds a row to the summary. */
    void row(String label, String text) {
        rows.put(label, text);
    }

    /** Prints something unexpected: what happened, why, and what to do. */
    void notice(String sentences) {
        out.println("note: " + Printable.oneLine(sentences));
    }

    /** Prints an operation that takes time now. */
    void progress(String line) {
        out.println(Printable.oneLine(line));
    }

    /** Prints information for troubleshooting, if details are on. */
    void detail(Object line) {
        if (details) {
            out.println(line);
        }
    }

    /** Shows progress where the messages go: as a bar where they go to a terminal. */
    Terminal terminal() {
        return out == System.err ? Terminal.standardError() : new Terminal(out, false, Clock.system());
    }

    /** The same model, whose loading is shown. */
    Checkpoint watched(Checkpoint checkpoint) {
        Terminal terminal = terminal();
        return checkpoint.watched((done, total) -> terminal.at("loading weights", done, total));
    }

    /** The store of this user, with progress and messages where this one's go. */
    ModelStore models() {
        return ModelStore.ofUser(terminal(), out);
    }

    /** The rows of the summary so far, in aligned columns. */
    String summary() {
        int width = rows.keySet().stream().mapToInt(String::length).max().orElse(0);
        StringBuilder text = new StringBuilder();
        rows.forEach((label, row) -> text.append(label)
                .append(" ".repeat(width + 2 - label.length()))
                .append(Printable.oneLine(row))
                .append(System.lineSeparator()));
        return text.toString();
    }

    /** Prints the summary, for commands that have no address to print. */
    void printSummary() {
        out.print(summary());
        out.flush();
    }
}
