package dev.tandem.app;

import dev.tandem.engine.clock.Clock;
import dev.tandem.fetch.Progress;
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
    private final Progress watcher;
    private final Map<String, String> rows = new LinkedHashMap<>();

    StartLog(PrintStream out, boolean details) {
        this(out, details, Progress.SILENT);
    }

    /** @param watcher receives all progress too, with names of the work that tell nothing about the model */
    StartLog(PrintStream out, boolean details, Progress watcher) {
        this.out = out;
        this.details = details;
        this.watcher = watcher;
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

    /** Shows progress in bytes where the messages go: as a bar where they go to a terminal. */
    Progress bytes() {
        return both(terminal(), watcher);
    }

    /** Shows progress in numbers of items in the same way. */
    Progress items() {
        return both(terminal()::count, watcher);
    }

    private static Progress both(Progress first, Progress second) {
        return (what, done, total) -> {
            first.at(what, done, total);
            second.at(what, done, total);
        };
    }

    private Terminal terminal() {
        return out == System.err ? Terminal.standardError() : new Terminal(out, false, Clock.system());
    }

    /** The same model, whose loading is shown. */
    Checkpoint watched(Checkpoint checkpoint) {
        Progress progress = bytes();
        return checkpoint.watched((done, total) -> progress.at("loading weights", done, total));
    }

    /** Shows the progress of a model's download; the watcher does not learn the model's name. */
    Progress downloads() {
        return both(terminal(), (what, done, total) -> watcher.at("downloading the model", done, total));
    }

    /** The store of this user, with progress and messages where this one's go. */
    ModelStore models() {
        return ModelStore.ofUser(downloads(), out);
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
