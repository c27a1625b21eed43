package dev.tandem.server.http;

import java.util.Locale;

/** Text of unknown origin, made fit for a terminal, a log and an error message. */
public final class Printable {
    /** Enough to recognise a name or a value. */
    private static final int MAX_CODE_POINTS = 60;

    private Printable() {}

    /** {@link #escape Escaped}, and cut where it is long: what an error message quotes of a request. */
    public static String of(String text) {
        boolean cut = text.length() > 2 * MAX_CODE_POINTS || text.codePointCount(0, text.length()) > MAX_CODE_POINTS;
        if (!cut) {
            return escape(text);
        }
        StringBuilder start = new StringBuilder();
        text.codePoints().limit(MAX_CODE_POINTS).forEach(start::appendCodePoint);
        return escape(start.toString()) + '…';
    }

    /**
     * Control characters, line breaks, direction marks and halves of surrogate pairs become escapes: no text can start
     * a line of its own or change the terminal.
     */
    public static String escape(String text) {
        if (text.codePoints().noneMatch(Printable::controls)) {
            return text;
        }
        StringBuilder shown = new StringBuilder(text.length() + 16);
        text.codePoints().forEach(c -> {
            switch (c) {
                case '\n' -> shown.append("\\n");
                case '\r' -> shown.append("\\r");
                case '\t' -> shown.append("\\t");
                default -> {
                    if (controls(c)) {
                        shown.append(String.format(Locale.ROOT, "\\u%04x", c));
                    } else {
                        shown.appendCodePoint(c);
                    }
                }
            }
        });
        return shown.toString();
    }

    /** One line: line breaks, with the blanks around them, become one blank; the rest is {@link #escape escaped}. */
    public static String oneLine(String text) {
        return escape(text.strip().replaceAll("\\s*[\\r\\n]+\\s*", " "));
    }

    private static boolean controls(int c) {
        return switch (Character.getType(c)) {
            case Character.CONTROL,
                    Character.FORMAT,
                    Character.SURROGATE,
                    Character.LINE_SEPARATOR,
                    Character.PARAGRAPH_SEPARATOR -> true;
            default -> false;
        };
    }
}
