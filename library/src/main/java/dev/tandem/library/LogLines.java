package dev.tandem.library;

import java.io.ByteArrayOutputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.function.Consumer;

/**
 * Passes on what is printed, line by line.
 *
 * <p>Owned by: the thread that loads the model.
 */
final class LogLines extends OutputStream {
    private final Consumer<String> lines;
    private final ByteArrayOutputStream line = new ByteArrayOutputStream();

    private LogLines(Consumer<String> lines) {
        this.lines = lines;
    }

    static PrintStream to(Consumer<String> lines) {
        return new PrintStream(new LogLines(lines), true, StandardCharsets.UTF_8);
    }

    @Override
    public void write(int value) {
        if (value != '\n') {
            line.write(value);
            return;
        }
        String text = line.toString(StandardCharsets.UTF_8).strip();
        line.reset();
        if (!text.isEmpty()) {
            lines.accept(text);
        }
    }
}
