package dev.tandem.server.http;

import java.util.Locale;

/** Makes untrusted text safe for terminals, logs and error messages. */
public final class Printable {
    /** Long enough to recognise a name or a value in an error message. */
    private static final int MAX_CODE_POINTS = 60;

    private Printable() {}

    /** {@link #escape Escapes} and shortens text that an error message quotes. */
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
     * Escapes control characters, line breaks, direction marks and unpaired surrogates, so that the text cannot start a
     * new line or control the terminal.
     */
    public static String escape(String text) {
        if (text.codePoints().noneMatch(Printable::isControl)) {
            return text;
        }
        StringBuilder shown = new StringBuilder(text.length() + 16);
        text.codePoints().forEach(c -> {
            switch (c) {
                case '\n' -> shown.append("\\n");
                case '\r' -> shown.append("\\r");
                case '\t' -> shown.append("\\t");
                default -> {
                    if (isControl(c)) {
                        shown.append(String.format(Locale.ROOT, "\\u%04x", c));
                    } else {
                        shown.appendCodePoint(c);
                    }
                }
            }
        });
        return shown.toString();
    }

    /** Joins lines: a line break and the spaces around it become one space; the rest is {@link #escape escaped}. */
    public static String oneLine(String text) {
        return escape(text.strip().replaceAll("\\s*[\\r\\n]+\\s*", " "));
    }

    private static boolean isControl(int c) {
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
