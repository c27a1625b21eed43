package dev.tandem.text.answer;

import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import tools.jackson.core.io.JsonStringEncoder;

/**
 * Translates the arguments of one of Gemma's calls to JSON: keys are bare, and strings stand between markers.
 *
 * <p>Owned by: one call.
 */
final class GemmaArguments {
    /** The markers around strings, of Gemma 4 and of FunctionGemma. */
    static final List<String> QUOTES = List.of("<|\"|>", "<escape>");

    private static final Pattern NUMBER = Pattern.compile("-?(0|[1-9]\\d*)(\\.\\d+)?([eE][+-]?\\d+)?");
    private static final Map<String, String> LITERALS =
            Map.of("true", "true", "false", "false", "null", "null", "True", "true", "False", "false", "None", "null");

    private final PartBuffer parts;
    /** The closing brackets that are still to come, the innermost last. */
    private final StringBuilder open = new StringBuilder();
    /** A key, or a value that is neither string, object nor list. */
    private final StringBuilder word = new StringBuilder();

    private boolean quoted;
    private boolean hasString;
    private boolean comma;
    private boolean complete;

    GemmaArguments(PartBuffer parts) {
        this.parts = parts;
    }

    boolean isComplete() {
        return complete;
    }

    /** Takes a marker that begins or ends a string. */
    void quote() {
        quoted = !quoted;
        if (isKey()) {
            return; // a key in markers is the same key
        }
        if (quoted) {
            separate();
        }
        parts.arguments('"');
        hasString = true;
    }

    private boolean isKey() {
        return !open.isEmpty() && open.charAt(open.length() - 1) == ':';
    }

    void next(char c) {
        if (quoted) {
            if (isKey()) {
                word.append(c);
            } else {
                parts.arguments(escaped(c));
            }
            return;
        }
        switch (c) {
            case '{', '[' -> {
                separate();
                parts.arguments(c);
                open.append(c == '{' ? "}:" : "]");
            }
            case '}', ']' -> close(c);
            case ':' -> {
                if (isKey()) {
                    separate();
                    parts.arguments('"' + escaped(bare()) + "\":");
                    open.setLength(open.length() - 1);
                } else {
                    word.append(c);
                }
            }
            case ',' -> {
                endValue();
                comma = true;
                if (!open.isEmpty() && open.charAt(open.length() - 1) == '}') {
                    open.append(':');
                }
            }
            default -> word.append(c);
        }
    }

    private void close(char c) {
        endValue();
        if (isKey()) {
            open.setLength(open.length() - 1);
        }
        comma = false;
        parts.arguments(c);
        open.setLength(open.length() - 1);
        hasString = true;
        complete = open.isEmpty();
    }

    /** Writes the comma after the previous element, which is left out before a closing bracket. */
    private void separate() {
        if (comma) {
            parts.arguments(',');
            comma = false;
        }
        hasString = false;
    }

    private void endValue() {
        String value = word.toString().strip();
        word.setLength(0);
        if (value.isEmpty() || hasString || isKey()) {
            hasString = false;
            return;
        }
        separate();
        String literal = LITERALS.get(value);
        if (literal != null) {
            parts.arguments(literal);
        } else if (NUMBER.matcher(value).matches()) {
            parts.arguments(value);
        } else {
            String text = value.length() > 1 && value.startsWith("\"") && value.endsWith("\"")
                    ? value.substring(1, value.length() - 1)
                    : value;
            parts.arguments('"' + escaped(text) + '"');
        }
    }

    /** The key without the quotes that JSON would have. */
    private String bare() {
        String key = word.toString().strip();
        word.setLength(0);
        return key.replaceAll("^\"|\"$", "");
    }

    private static String escaped(char c) {
        return escaped(String.valueOf(c));
    }

    private static String escaped(String text) {
        return new String(JsonStringEncoder.getInstance().quoteAsCharArray(text));
    }
}
