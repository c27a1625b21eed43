package dev.tandem.text.jinja;

import dev.tandem.text.jinja.Token.Kind;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Optional;
import java.util.Set;

/** A recursive-descent parser for statements; {@link ExpressionParser} parses expressions. */
final class Parser {
    private final TokenCursor cursor;
    private final ExpressionParser expressions;

    Parser(List<Token> tokens) {
        this.cursor = new TokenCursor(tokens);
        this.expressions = new ExpressionParser(cursor);
    }

    List<Node> template() {
        List<Node> nodes = until(Set.of());
        if (cursor.peek().kind() != Kind.END) {
            throw cursor.error("unexpected '" + cursor.peekAt(1).text() + "'");
        }
        return nodes;
    }

    /** Parses nodes up to a block tag with one of these names, which it leaves unread. */
    private List<Node> until(Set<String> ends) {
        List<Node> nodes = new ArrayList<>();
        while (cursor.peek().kind() != Kind.END) {
            Token token = cursor.next();
            switch (token.kind()) {
                case TEXT -> nodes.add(new Node.Text(token.text()));
                case OUTPUT_START -> {
                    nodes.add(new Node.Output(expressions.tuple()));
                    cursor.expect(Kind.OUTPUT_END);
                }
                case BLOCK_START -> {
                    if (ends.contains(cursor.peek().text())) {
                        cursor.back();
                        return nodes;
                    }
                    statement(nodes);
                }
                case OUTPUT_END, BLOCK_END, NAME, STRING, INTEGER, REAL, SYMBOL, END ->
                    throw cursor.error("unexpected '" + token.text() + "'");
            }
        }
        return nodes;
    }

    private void statement(List<Node> nodes) {
        cursor.enter();
        namedStatement(nodes);
        cursor.leave();
    }

    private void namedStatement(List<Node> nodes) {
        String name = cursor.name();
        switch (name) {
            case "if" -> nodes.add(ifStatement());
            case "for" -> nodes.add(forStatement());
            case "set" -> nodes.add(setStatement());
            case "macro" -> nodes.add(macro());
            case "filter" -> nodes.add(filterBlock());
            case "break" -> {
                cursor.expect(Kind.BLOCK_END);
                nodes.add(new Node.Break());
            }
            case "continue" -> {
                cursor.expect(Kind.BLOCK_END);
                nodes.add(new Node.Continue());
            }
            // marks the assistant's tokens for training; only its body is rendered
            case "generation" -> {
                cursor.expect(Kind.BLOCK_END);
                nodes.addAll(until(Set.of("endgeneration")));
                end("endgeneration");
            }
            default -> throw cursor.error("the statement '" + name + "' is not known");
        }
    }

    private void end(String name) {
        cursor.expect(Kind.BLOCK_START);
        cursor.expect(Kind.NAME, name);
        cursor.expect(Kind.BLOCK_END);
    }

    private Node ifStatement() {
        List<Node.If.Branch> branches = new ArrayList<>();
        List<Node> otherwise = List.of();
        Expression condition = expressions.expression();
        cursor.expect(Kind.BLOCK_END);
        while (true) {
            List<Node> body = until(Set.of("elif", "else", "endif"));
            branches.add(new Node.If.Branch(condition, body));
            cursor.expect(Kind.BLOCK_START);
            String next = cursor.name();
            if (next.equals("elif")) {
                condition = expressions.expression();
                cursor.expect(Kind.BLOCK_END);
                continue;
            }
            cursor.expect(Kind.BLOCK_END);
            if (next.equals("else")) {
                otherwise = until(Set.of("endif"));
                end("endif");
            }
            return new Node.If(branches, otherwise);
        }
    }

    private Node forStatement() {
        List<String> targets = targets();
        cursor.expect(Kind.NAME, "in");
        Expression items = expressions.withoutConditional();
        Optional<Expression> condition =
                cursor.take(Kind.NAME, "if") ? Optional.of(expressions.expression()) : Optional.empty();
        cursor.take(Kind.NAME, "recursive");
        cursor.expect(Kind.BLOCK_END);
        List<Node> body = until(Set.of("else", "endfor"));
        List<Node> otherwise = List.of();
        cursor.expect(Kind.BLOCK_START);
        if (cursor.name().equals("else")) {
            cursor.expect(Kind.BLOCK_END);
            otherwise = until(Set.of("endfor"));
            end("endfor");
        } else {
            cursor.expect(Kind.BLOCK_END);
        }
        return new Node.For(targets, items, condition, body, otherwise);
    }

    private List<String> targets() {
        List<String> targets = new ArrayList<>();
        boolean parenthesis = cursor.take(Kind.SYMBOL, "(");
        do {
            targets.add(cursor.name());
        } while (cursor.take(Kind.SYMBOL, ","));
        if (parenthesis) {
            cursor.expect(Kind.SYMBOL, ")");
        }
        return targets;
    }

    private Node setStatement() {
        List<String> targets = targets();
        if (targets.size() == 1 && cursor.take(Kind.SYMBOL, ".")) {
            String attribute = cursor.name();
            cursor.expect(Kind.SYMBOL, "=");
            Node node = new Node.SetAttribute(targets.getFirst(), attribute, expressions.tuple());
            cursor.expect(Kind.BLOCK_END);
            return node;
        }
        if (cursor.take(Kind.SYMBOL, "=")) {
            Node node = new Node.Set(targets, expressions.tuple());
            cursor.expect(Kind.BLOCK_END);
            return node;
        }
        cursor.expect(Kind.BLOCK_END);
        List<Node> body = until(Set.of("endset"));
        end("endset");
        return new Node.SetBlock(targets.getFirst(), body);
    }

    private Node macro() {
        String name = cursor.name();
        LinkedHashMap<String, Optional<Expression>> parameters = new LinkedHashMap<>();
        cursor.expect(Kind.SYMBOL, "(");
        while (!cursor.take(Kind.SYMBOL, ")")) {
            String parameter = cursor.name();
            Optional<Expression> value =
                    cursor.take(Kind.SYMBOL, "=") ? Optional.of(expressions.expression()) : Optional.empty();
            parameters.put(parameter, value);
            cursor.take(Kind.SYMBOL, ",");
        }
        cursor.expect(Kind.BLOCK_END);
        List<Node> body = until(Set.of("endmacro"));
        end("endmacro");
        return new Node.Macro(name, parameters, body);
    }

    private Node filterBlock() {
        String name = cursor.name();
        Expression.Arguments arguments = expressions.optionalArguments();
        cursor.expect(Kind.BLOCK_END);
        List<Node> body = until(Set.of("endfilter"));
        end("endfilter");
        return new Node.FilterBlock(name, arguments, body);
    }

    /** Reads tokens one by one. */
    static final class TokenCursor {
        /** Max nesting of blocks and expressions: chat templates have about 20; each level takes 1 KiB of stack. */
        private static final int MAX_DEPTH = 150;

        private final List<Token> tokens;
        private int at;
        private int depth;

        TokenCursor(List<Token> tokens) {
            this.tokens = tokens;
        }

        Token peek() {
            return tokens.get(at);
        }

        Token peekAt(int ahead) {
            return tokens.get(Math.min(at + ahead, tokens.size() - 1));
        }

        Token next() {
            Token token = tokens.get(at);
            if (token.kind() != Kind.END) {
                at++;
            }
            return token;
        }

        void back() {
            at--;
        }

        /** Counts a recursive call of the parser; a parser that has thrown is not used again. */
        void enter() {
            if (++depth > MAX_DEPTH) {
                throw error("blocks and expressions are nested more than " + MAX_DEPTH + " deep");
            }
        }

        void leave() {
            depth--;
        }

        boolean take(Kind kind, String text) {
            if (peek().is(kind, text)) {
                at++;
                return true;
            }
            return false;
        }

        void expect(Kind kind) {
            if (peek().kind() != kind) {
                throw error("expected " + kind + ", found '" + peek().text() + "'");
            }
            next();
        }

        void expect(Kind kind, String text) {
            if (!take(kind, text)) {
                throw error("expected '" + text + "', found '" + peek().text() + "'");
            }
        }

        String name() {
            if (peek().kind() != Kind.NAME) {
                throw error("expected a name, found '" + peek().text() + "'");
            }
            return next().text();
        }

        JinjaException error(String message) {
            return new JinjaException("line " + peek().line() + ": " + message);
        }
    }
}
