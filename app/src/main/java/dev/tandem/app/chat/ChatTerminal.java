package dev.tandem.app.chat;

/** Where lines come from and answers go. Owned by: the main thread. */
public interface ChatTerminal extends AutoCloseable {
    /** What was read. */
    sealed interface Input {
        record Line(String text) implements Input {}

        /** Ctrl-C at the prompt: the line is dropped. */
        record Interrupted() implements Input {}

        /** Ctrl-D, or the end of the file. */
        record End() implements Input {}
    }

    Input read(String prompt);

    /** Prints part of an answer at once. */
    void answer(String text);

    /** Prints part of the reasoning before an answer, where people watch. */
    void reasoning(String text);

    /** Ends the line of an answer. */
    void endAnswer();

    /** Prints what a command of the chat says. */
    void say(String line);

    /** Prints what is only for people who watch. */
    void note(String line);

    /** Prints what went wrong. */
    void error(String line);

    /** From now until it is closed, Ctrl-C calls the action and does not end the program. */
    Interrupts onInterrupt(Runnable action);

    /** Ends a handler of Ctrl-C. */
    interface Interrupts extends AutoCloseable {
        @Override
        void close();
    }

    @Override
    void close();
}
