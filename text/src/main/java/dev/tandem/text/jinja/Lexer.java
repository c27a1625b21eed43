package dev.tandem.text.jinja;

import java.util.ArrayList;
import java.util.List;

/** Splits a template into text and the tokens inside its tags, applying whitespace control on the way. */
final class Lexer {
    private static final List<String> SYMBOLS = List.of(
            "**", "//", "==", "!=", "<=", ">=", "(", ")", "[", "]", "{", "}", ",", ":", ".", "|", "~", "+", "-", "*", "/",
            "%", "<", ">", "=");

    private final String source;
    private final List<Token> tokens = new ArrayList<>();
    private int at;
    private int line = 1;

    Lexer(String source) {
        this.source = source.endsWith("\n") ? source.substring(0, source.length() - 1) : source;
    }

    /** What a tag's end does to the text after it. */
    private enum After {
        /** {@code -%}}: all whitespace goes. */
        STRIP,
        /** A block's own line ending goes. */
        TRIM_NEWLINE,
        /** {@code +%}} and outputs: nothing goes. */
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

    /** Blanks between the line's start and a block tag are dropped. */
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
        if (Character.isDigit(c)) {
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

    private Token number() {
        int from = at;
        boolean real = false;
        while (at < source.length()) {
            char c = source.charAt(at);
            boolean point = c == '.' && at + 1 < source.length() && Character.isDigit(source.charAt(at + 1));
            boolean exponent = (c == 'e' || c == 'E') && at > from && exponentFollows();
            real |= exponent;
            if (exponent) {
                at += Character.isDigit(source.charAt(at + 1)) ? 1 : 2;
                continue;
            }
            if (!Character.isDigit(c) && !point) {
                break;
            }
            real |= point;
            at++;
        }
        return new Token(real ? Token.Kind.REAL : Token.Kind.INTEGER, source.substring(from, at), line);
    }

    private boolean exponentFollows() {
        int digit = at + 1 < source.length() && "+-".indexOf(source.charAt(at + 1)) >= 0 ? at + 2 : at + 1;
        return digit < source.length() && Character.isDigit(source.charAt(digit));
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

    private void escape(StringBuilder value, char c) {
        switch (c) {
            case 'n' -> value.append('\n');
            case 't' -> value.append('\t');
            case 'r' -> value.append('\r');
            case '\\', '\'', '"' -> value.append(c);
            case 'u' -> {
                if (at + 4 >= source.length()) {
                    throw new JinjaException("line " + line + ": an escape \\u is cut off");
                }
                value.append((char) Integer.parseInt(source.substring(at + 1, at + 5), 16));
                at += 4;
            }
            default -> value.append('\\').append(c);
        }
    }
}
