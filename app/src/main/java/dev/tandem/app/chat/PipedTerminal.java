package dev.tandem.app.chat;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;

/**
 * Reads lines of a pipe or file and prints answers alone, for scripts. Ctrl-C ends the program.
 *
 * <p>Owned by: the main thread.
 */
public final class PipedTerminal implements ChatTerminal {
    private final BufferedReader in;
    private final PrintStream out;
    private final PrintStream errors;

    /** The streams stay open. */
    public PipedTerminal(InputStream in, PrintStream out, PrintStream errors) {
        this.in = new BufferedReader(new InputStreamReader(in, StandardCharsets.UTF_8));
        this.out = new PrintStream(out, true, StandardCharsets.UTF_8);
        this.errors = errors;
    }

    @Override
    public Input read(String prompt) {
        try {
            String line = in.readLine();
            return line == null ? new Input.End() : new Input.Line(line);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    @Override
    public void answer(String text) {
        out.print(text);
        out.flush();
    }

    @Override
    public void reasoning(String text) {}

    @Override
    public void endAnswer() {
        out.println();
    }

    @Override
    public void say(String line) {
        out.println(line);
    }

    @Override
    public void note(String line) {}

    @Override
    public void error(String line) {
        errors.println(line);
    }

    @Override
    public Interrupts onInterrupt(Runnable action) {
        return () -> {};
    }

    @Override
    public void close() {}
}
