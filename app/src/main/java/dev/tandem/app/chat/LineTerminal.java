package dev.tandem.app.chat;

import java.io.IOException;
import java.io.PrintWriter;
import java.io.UncheckedIOException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.FileSystems;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import org.jline.reader.EndOfFileException;
import org.jline.reader.LineReader;
import org.jline.reader.LineReaderBuilder;
import org.jline.reader.UserInterruptException;
import org.jline.reader.impl.DefaultParser;
import org.jline.terminal.Terminal;
import org.jline.terminal.TerminalBuilder;
import org.jline.utils.AttributedStringBuilder;
import org.jline.utils.AttributedStyle;

/**
 * A terminal with line editing, and a history that is kept in a file for its owner alone.
 *
 * <p>Owned by: the main thread; the action of {@link #onInterrupt} runs on a thread of the terminal.
 */
public final class LineTerminal implements ChatTerminal {
    /** Lines of history that the file keeps; not chosen by an experiment. */
    private static final int MAX_HISTORY = 1000;

    private final Terminal terminal;
    private final LineReader reader;
    private final PrintWriter out;

    /** @param terminal closed with this */
    public LineTerminal(Terminal terminal, Path history) {
        this.terminal = terminal;
        this.out = terminal.writer();
        makeForOwner(history);
        // a message is text: quotes, backslashes and ! have no meaning
        DefaultParser parser = new DefaultParser();
        parser.setQuoteChars(new char[0]);
        parser.setEscapeChars(new char[0]);
        this.reader = LineReaderBuilder.builder()
                .terminal(terminal)
                .appName("tandem")
                .parser(parser)
                .variable(LineReader.HISTORY_FILE, history)
                .variable(LineReader.HISTORY_FILE_SIZE, MAX_HISTORY)
                .option(LineReader.Option.DISABLE_EVENT_EXPANSION, true)
                .option(LineReader.Option.HISTORY_TIMESTAMPED, false)
                .build();
    }

    /** The terminal of this process. */
    public static LineTerminal ofProcess(Path history) {
        try {
            return new LineTerminal(
                    TerminalBuilder.builder().system(true).nativeSignals(true).build(), history);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static void makeForOwner(Path history) {
        try {
            Files.createDirectories(history.toAbsolutePath().getParent());
            if (FileSystems.getDefault().supportedFileAttributeViews().contains("posix")) {
                Files.createFile(
                        history, PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------")));
            }
        } catch (FileAlreadyExistsException e) {
            // it keeps the rights that its owner gave it
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    @Override
    public Input read(String prompt) {
        try {
            return new Input.Line(reader.readLine(prompt));
        } catch (UserInterruptException e) {
            return new Input.Interrupted();
        } catch (EndOfFileException e) {
            return new Input.End();
        }
    }

    @Override
    public void answer(String text) {
        out.print(text);
        out.flush();
    }

    @Override
    public void reasoning(String text) {
        styled(text, AttributedStyle.DEFAULT.faint());
        out.flush();
    }

    @Override
    public void endAnswer() {
        out.println();
        out.flush();
    }

    @Override
    public void say(String line) {
        out.println(line);
        out.flush();
    }

    @Override
    public void note(String line) {
        styled(line, AttributedStyle.DEFAULT.faint());
        endAnswer();
    }

    @Override
    public void error(String line) {
        styled(line, AttributedStyle.DEFAULT.foreground(AttributedStyle.RED));
        endAnswer();
    }

    private void styled(String text, AttributedStyle style) {
        out.print(new AttributedStringBuilder().styled(style, text).toAnsi(terminal));
    }

    @Override
    public Interrupts onInterrupt(Runnable action) {
        Terminal.SignalHandler before = terminal.handle(Terminal.Signal.INT, signal -> action.run());
        boolean echo = terminal.echo(false);
        return () -> {
            terminal.echo(echo);
            terminal.handle(Terminal.Signal.INT, before);
        };
    }

    @Override
    public void close() {
        try {
            reader.getHistory().save();
            terminal.close();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
