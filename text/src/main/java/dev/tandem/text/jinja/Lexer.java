package dev.tandem.text.jinja;

import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Splits a template into text and the tokens inside its tags, applying whitespace control on the way. */
final class Lexer {
    private static final List<String> SYMBOLS = List.of(
            "**", "//", "==", "!=", "<=", ">=", "(", ")", "[", "]", "{", "}", ",", ":", ".", "|", "~", "+", "-", "*",
            "/", "%", "<", ">", "=");

    private static final Pattern NUMBER = Pattern.compile("0[xX][0-9a-fA-F_]++|0[oO][0-7_]++|0[bB][01_]++"
            + "|(?<real>[0-9][0-9_]*+(\\.[0-9][0-9_]*+)?+[eE][+-]?+[0-9][0-9_]*+|[0-9][0-9_]*+\\.[0-9][0-9_]*+)"
            + "|[0-9][0-9_]*+");

    private final String source;
    private final List<Token> tokens = new ArrayList<>();
    private int at;
    private int line = 1;

    Lexer(String source) {
        String lines = source.replace("\r\n", "\n").replace('\r', '\n');
        this.source = lines.endsWith("\n") ? lines.substring(0, lines.length() - 1) : lines;
    }

    /** How the end of a tag changes the text after it. */
    private enum After {
        /** {@code -%}}: all whitespace is removed. */
        STRIP,
        /** The end of a block: one line ending is removed. */
        TRIM_NEWLINE,
        /** {@code +%}} and outputs: nothing is removed. */
        KEEP
    }

    List<Token> run() {
        After after = After.KEEP;
        while (at < source.length()) {
            int tag = nextTag();
            String text = source.substring(at, tag < 0 ? source.length() : tag);
            int lines = (int) text.chars().filter(c -> c == '\n').count();
            addText(text, tag, after);
            line += lines;
            if (tag < 0) {
                break;
            }
            at = tag;
            char type = source.charAt(tag + 1);
            after = switch (type) {
                case '#' -> comment();
                case '%' -> tag(Token.Kind.BLOCK_START, Token.Kind.BLOCK_END, "%}");
                default -> tag(Token.Kind.OUTPUT_START, Token.Kind.OUTPUT_END, "}}");
            };
        }
        tokens.add(new Token(Token.Kind.END, "", line));
        return tokens;
    }

    private int nextTag() {
        for (int i = at; i + 1 < source.length(); i++) {
            if (source.charAt(i) == '{' && "{%#".indexOf(source.charAt(i + 1)) >= 0) {
                return i;
            }
        }
        return -1;
    }

    private void addText(String raw, int tag, After after) {
        String text = raw;
        if (after == After.STRIP) {
            text = text.stripLeading();
        } else if (after == After.TRIM_NEWLINE && text.startsWith("\n")) {
            text = text.substring(1);
        }
        if (tag >= 0) {
            char control = tag + 2 < source.length() ? source.charAt(tag + 2) : ' ';
            if (control == '-') {
                text = text.stripTrailing();
            } else if (source.charAt(tag + 1) != '{' && control != '+') {
                text = stripIndentation(text, raw);
            }
        }
        if (!text.isEmpty()) {
            tokens.add(new Token(Token.Kind.TEXT, text, line));
        }
    }

    /** Removes spaces between the start of the line and a block tag. */
    private String stripIndentation(String text, String raw) {
        int end = text.length();
        while (end > 0 && (text.charAt(end - 1) == ' ' || text.charAt(end - 1) == '\t')) {
            end--;
        }
        boolean lineStart = end > 0
                ? text.charAt(end - 1) == '\n'
                : raw.length() == text.length() ? tokens.isEmpty() : raw.startsWith("\n");
        return lineStart ? text.substring(0, end) : text;
    }

    private After comment() {
        int end = source.indexOf("#}", at + 2);
        if (end < 0) {
            throw new JinjaException("line " + line + ": a comment is not closed");
        }
        line += (int) source.substring(at, end).chars().filter(c -> c == '\n').count();
        at = end + 2;
        return source.charAt(end - 1) == '-' ? After.STRIP : After.TRIM_NEWLINE;
    }

    private After tag(Token.Kind start, Token.Kind end, String close) {
        tokens.add(new Token(start, "", line));
        at += 2;
        if (at < source.length() && (source.charAt(at) == '-' || source.charAt(at) == '+')) {
            at++;
        }
        int depth = 0;
        while (true) {
            skipBlanks();
            if (at >= source.length()) {
                throw new JinjaException("line " + line + ": a tag is not closed with " + close);
            }
            boolean strip = depth == 0 && source.startsWith("-" + close, at);
            boolean keep = depth == 0 && source.startsWith("+" + close, at);
            if (strip || keep || depth == 0 && source.startsWith(close, at)) {
                at += close.length() + (strip || keep ? 1 : 0);
                tokens.add(new Token(end, "", line));
                boolean output = end == Token.Kind.OUTPUT_END;
                return strip ? After.STRIP : keep || output ? After.KEEP : After.TRIM_NEWLINE;
            }
            Token token = token();
            if (token.kind() == Token.Kind.SYMBOL) {
                depth += "([{".contains(token.text()) ? 1 : ")]}".contains(token.text()) ? -1 : 0;
            }
            tokens.add(token);
        }
    }

    private void skipBlanks() {
        while (at < source.length() && Character.isWhitespace(source.charAt(at))) {
            line += source.charAt(at) == '\n' ? 1 : 0;
            at++;
        }
    }

    private Token token() {
        char c = source.charAt(at);
        if (c == '\'' || c == '"') {
            return new Token(Token.Kind.STRING, string(c), line);
        }
        if (isDigit(c)) {
            return number();
        }
        if (Character.isLetter(c) || c == '_') {
            int from = at;
            while (at < source.length() && (Character.isLetterOrDigit(source.charAt(at)) || source.charAt(at) == '_')) {
                at++;
            }
            return new Token(Token.Kind.NAME, source.substring(from, at), line);
        }
        for (String symbol : SYMBOLS) {
            if (source.startsWith(symbol, at)) {
                at += symbol.length();
                return new Token(Token.Kind.SYMBOL, symbol, line);
            }
        }
        throw new JinjaException("line " + line + ": unexpected character '" + c + "'");
    }

    private static boolean isDigit(char c) {
        return c >= '0' && c <= '9';
    }

    /** A number; it may have underscores between digits, and an integer a base: {@code 1_000}, {@code 0x1F}. */
    private Token number() {
        Matcher number = NUMBER.matcher(source).region(at, source.length());
        if (!number.lookingAt()) {
            throw new JinjaException("line " + line + ": a number is malformed");
        }
        at = number.end();
        return new Token(number.group("real") == null ? Token.Kind.INTEGER : Token.Kind.REAL, number.group(), line);
    }

    private String string(char quote) {
        StringBuilder value = new StringBuilder();
        for (at++; at < source.length(); at++) {
            char c = source.charAt(at);
            if (c == quote) {
                at++;
                return value.toString();
            }
            if (c == '\\' && at + 1 < source.length()) {
                at++;
                escape(value, source.charAt(at));
            } else {
                value.append(c);
            }
        }
        throw new JinjaException("line " + line + ": a string is not closed");
    }

    /** Python's escapes; an unknown one stays unchanged. */
    private void escape(StringBuilder value, char c) {
        switch (c) {
            case '\n' -> {}
            case 'n' -> value.append('\n');
            case 't' -> value.append('\t');
            case 'r' -> value.append('\r');
            case 'a' -> value.append('\u0007');
            case 'b' -> value.append('\b');
            case 'f' -> value.append('\f');
            case 'v' -> value.append('\u000b');
            case '\\', '\'', '"' -> value.append(c);
            case 'x' -> value.appendCodePoint(hexadecimal(c, 2));
            case 'u' -> value.appendCodePoint(hexadecimal(c, 4));
            case 'U' -> value.appendCodePoint(hexadecimal(c, 8));
            case '0', '1', '2', '3', '4', '5', '6', '7' -> value.append(octal());
            default -> value.append('\\').append(c);
        }
    }

    private int hexadecimal(char kind, int digits) {
        String text = source.substring(at + 1, Math.min(source.length(), at + 1 + digits));
        int value = text.matches("[0-9a-fA-F]{" + digits + "}") ? Integer.parseUnsignedInt(text, 16) : -1;
        if (!Character.isValidCodePoint(value)) {
            throw new JinjaException("line " + line + ": the escape \\" + kind + text + " is not " + digits
                    + " hexadecimal digits of a character");
        }
        at += digits;
        return value;
    }

    /** Up to three octal digits; the first is already read. */
    private char octal() {
        int value = source.charAt(at) - '0';
        for (int i = 0;
                i < 2 && at + 1 < source.length() && source.charAt(at + 1) >= '0' && source.charAt(at + 1) <= '7';
                i++) {
            value = value * 8 + source.charAt(++at) - '0';
        }
        return (char) value;
    }
}
