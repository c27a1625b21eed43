package dev.tandem.text.answer;

/**
 * Finds the end of one JSON value in text that arrives character by character.
 *
 * <p>It checks brackets, and that strings have no raw control characters, which is enough to find the end. Everything
 * else is left to the reader of the value.
 *
 * <p>Owned by: one call.
 */
final class JsonScanner {
    enum Status {
        /** The value goes on. */
        MORE,
        /** This character is the value's last. */
        LAST,
        /** The value has ended before this character. */
        BEYOND,
        /** This character cannot belong to the value. */
        BROKEN
    }

    /** The closing brackets that are still to come, the innermost last. */
    private final StringBuilder open = new StringBuilder();

    private boolean started;
    private boolean inScalar;
    private boolean inString;
    private boolean escaped;

    Status next(char c) {
        if (inString) {
            return string(c);
        }
        if (inScalar) {
            return isScalar(c) ? Status.MORE : Status.BEYOND;
        }
        boolean first = !started;
        started = true;
        switch (c) {
            case '"' -> inString = true;
            case '{' -> open.append('}');
            case '[' -> open.append(']');
            case '}', ']' -> {
                if (open.isEmpty() || open.charAt(open.length() - 1) != c) {
                    return Status.BROKEN;
                }
                open.setLength(open.length() - 1);
                return open.isEmpty() ? Status.LAST : Status.MORE;
            }
            default -> {
                if (first) {
                    inScalar = isScalar(c);
                    return inScalar ? Status.MORE : Status.BROKEN;
                }
            }
        }
        return Status.MORE;
    }

    private Status string(char c) {
        if (c < ' ') {
            return Status.BROKEN;
        }
        if (escaped) {
            escaped = false;
        } else if (c == '\\') {
            escaped = true;
        } else if (c == '"') {
            inString = false;
            return open.isEmpty() ? Status.LAST : Status.MORE;
        }
        return Status.MORE;
    }

    /** Whether a number or one of true, false and null may have the character. */
    private static boolean isScalar(char c) {
        return Character.isLetterOrDigit(c) || c == '-' || c == '+' || c == '.';
    }
}
