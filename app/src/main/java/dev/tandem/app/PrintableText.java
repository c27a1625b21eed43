package dev.tandem.app;

import java.util.Locale;

/** Text of unknown origin, made fit for a terminal and a log. */
final class PrintableText {
    private PrintableText() {}

    /** Control characters become escapes: no text can start a line of its own or change the terminal. */
    static String escape(String text) {
        if (text.chars().noneMatch(PrintableText::controls)) {
            return text;
        }
        StringBuilder out = new StringBuilder(text.length() + 16);
        text.chars().forEach(c -> {
            switch (c) {
                case '\n' -> out.append("\\n");
                case '\r' -> out.append("\\r");
                case '\t' -> out.append("\\t");
                default -> {
                    if (controls(c)) {
                        out.append(String.format(Locale.ROOT, "\\u%04x", c));
                    } else {
                        out.append((char) c);
                    }
                }
            }
        });
        return out.toString();
    }

    /** One line: line breaks, with the blanks around them, become one blank; other control characters are escaped. */
    static String oneLine(String text) {
        return escape(text.strip().replaceAll("\\s*[\\r\\n]+\\s*", " "));
    }

    /** C0, DEL, C1, and the two characters that Unicode breaks lines at. */
    private static boolean controls(int c) {
        return c < ' ' || (c >= 0x7f && c < 0xa0) || c == 0x2028 || c == 0x2029;
    }
}
