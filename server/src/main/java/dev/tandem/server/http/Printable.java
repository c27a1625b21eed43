package dev.tandem.server.http;

import java.util.Locale;

/** Text of a client, fit to be logged and to be shown in an error message. */
public final class Printable {
    /** Enough to recognise a name or a value. */
    private static final int MAX_CODE_POINTS = 60;

    private Printable() {}

    /** Control characters, line breaks, direction marks and halves of surrogate pairs as escapes; long text is cut. */
    public static String of(String text) {
        StringBuilder shown = new StringBuilder();
        text.codePoints().limit(MAX_CODE_POINTS).forEach(c -> {
            switch (Character.getType(c)) {
                case Character.CONTROL,
                        Character.FORMAT,
                        Character.SURROGATE,
                        Character.LINE_SEPARATOR,
                        Character.PARAGRAPH_SEPARATOR -> shown.append(String.format(Locale.ROOT, "\\u%04x", c));
                default -> shown.appendCodePoint(c);
            }
        });
        boolean cut = text.length() > 2 * MAX_CODE_POINTS || text.codePointCount(0, text.length()) > MAX_CODE_POINTS;
        return cut ? shown.append('…').toString() : shown.toString();
    }
}
