package dev.tandem.text.jinja;

import dev.tandem.text.jinja.Token.Kind;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/**
 * Parses expressions by Jinja's precedence, lowest first: conditional, or, and, not, comparison, sum, concatenation,
 * product, power, unary, postfix.
 */
final class ExpressionParser {
    private static final Set<String> COMPARISONS = Set.of("==", "!=", "<", ">", "<=", ">=");

    private final Parser.TokenCursor cursor;

    ExpressionParser(Parser.TokenCursor cursor) {
        this.cursor = cursor;
    }

    /** Parses one expression, or several separated by commas as a tuple. */
    Expression tuple() {
        Expression first = expression();
        if (!cursor.peek().is(Kind.SYMBOL, ",")) {
            return first;
        }
        List<Expression> items = new ArrayList<>(List.of(first));
        while (cursor.take(Kind.SYMBOL, ",")) {
            items.add(expression());
        }
        return new Expression.ListOf(items, true);
    }

    Expression expression() {
        cursor.enter();
        Expression then = or();
        while (cursor.take(Kind.NAME, "if")) {
            Expression condition = or();
            Optional<Expression> otherwise =
                    cursor.take(Kind.NAME, "else") ? Optional.of(expression()) : Optional.empty();
            then = new Expression.Conditional(condition, then, otherwise);
        }
        cursor.leave();
        return then;
    }

    /** In {@code for x in items if …} the "if" belongs to the loop. */
    Expression withoutConditional() {
        return or();
    }

    private Expression or() {
        Expression left = and();
        while (cursor.take(Kind.NAME, "or")) {
            left = new Expression.Binary("or", left, and());
        }
        return left;
    }

    private Expression and() {
        Expression left = not();
        while (cursor.take(Kind.NAME, "and")) {
            left = new Expression.Binary("and", left, not());
        }
        return left;
    }

    private Expression not() {
        if (!cursor.take(Kind.NAME, "not")) {
            return comparison();
        }
        cursor.enter();
        Expression operand = not();
        cursor.leave();
        return new Expression.Unary("not", operand);
    }

    private Expression comparison() {
        Expression first = sum();
        List<Expression.Comparison.Part> parts = new ArrayList<>();
        while (true) {
            Token token = cursor.peek();
            String operator;
            if (token.kind() == Kind.SYMBOL && COMPARISONS.contains(token.text())) {
                operator = cursor.next().text();
            } else if (cursor.take(Kind.NAME, "in")) {
                operator = "in";
            } else if (token.is(Kind.NAME, "not") && cursor.peekAt(1).is(Kind.NAME, "in")) {
                cursor.next();
                cursor.next();
                operator = "not in";
            } else {
                return parts.isEmpty() ? first : new Expression.Comparison(first, parts);
            }
            parts.add(new Expression.Comparison.Part(operator, sum()));
        }
    }

    private Expression sum() {
        Expression left = concatenation();
        while (cursor.peek().is(Kind.SYMBOL, "+") || cursor.peek().is(Kind.SYMBOL, "-")) {
            left = new Expression.Binary(cursor.next().text(), left, concatenation());
        }
        return left;
    }

    private Expression concatenation() {
        Expression left = product();
        while (cursor.take(Kind.SYMBOL, "~")) {
            left = new Expression.Binary("~", left, product());
        }
        return left;
    }

    private Expression product() {
        Expression left = power();
        while (cursor.peek().kind() == Kind.SYMBOL
                && Set.of("*", "/", "//", "%").contains(cursor.peek().text())) {
            left = new Expression.Binary(cursor.next().text(), left, power());
        }
        return left;
    }

    private Expression power() {
        Expression left = unary(true);
        while (cursor.take(Kind.SYMBOL, "**")) {
            left = new Expression.Binary("**", left, unary(true));
        }
        return left;
    }

    /** A sign binds tighter than a filter: {@code -3 | abs} is 3. */
    private Expression unary(boolean withFilters) {
        cursor.enter();
        Expression value;
        if (cursor.take(Kind.SYMBOL, "-")) {
            value = new Expression.Unary("-", unary(false));
        } else if (cursor.take(Kind.SYMBOL, "+")) {
            value = unary(false);
        } else {
            value = postfix(primary());
        }
        cursor.leave();
        return withFilters ? filtered(value) : value;
    }

    private Expression filtered(Expression start) {
        Expression target = start;
        while (true) {
            if (cursor.take(Kind.SYMBOL, "|")) {
                target = postfix(new Expression.Filter(target, cursor.name(), optionalArguments()));
            } else if (cursor.take(Kind.NAME, "is")) {
                boolean negated = cursor.take(Kind.NAME, "not");
                String name = cursor.name();
                target = new Expression.Test(target, name, testArguments(), negated);
            } else {
                return target;
            }
        }
    }

    private Object integer(Token token) {
        try {
            String digits = token.text().replace("_", "").toLowerCase(Locale.ROOT);
            return switch (digits.length() > 1 ? digits.substring(0, 2) : "") {
                case "0x" -> Numbers.parse(digits.substring(2), 16);
                case "0o" -> Numbers.parse(digits.substring(2), 8);
                case "0b" -> Numbers.parse(digits.substring(2), 2);
                default -> Numbers.parse(digits, 10);
            };
        } catch (NumberFormatException e) {
            throw cursor.error("'" + token.text() + "' is not an integer");
        }
    }

    Expression.Arguments optionalArguments() {
        return cursor.take(Kind.SYMBOL, "(") ? arguments() : Expression.Arguments.NONE;
    }

    /** A test may take one argument without parentheses: {@code x is divisibleby 3}. */
    private Expression.Arguments testArguments() {
        Token token = cursor.peek();
        if (token.is(Kind.SYMBOL, "(")) {
            return optionalArguments();
        }
        boolean literal = token.kind() == Kind.STRING || token.kind() == Kind.INTEGER || token.kind() == Kind.REAL;
        boolean name = token.kind() == Kind.NAME
                && !Set.of("and", "or", "not", "is", "in", "if", "else", "recursive")
                        .contains(token.text());
        return literal || name
                ? new Expression.Arguments(List.of(postfix(primary())), Map.of())
                : Expression.Arguments.NONE;
    }

    private Expression.Arguments arguments() {
        List<Expression> positional = new ArrayList<>();
        Map<String, Expression> named = new LinkedHashMap<>();
        while (!cursor.take(Kind.SYMBOL, ")")) {
            if (cursor.peek().kind() == Kind.NAME && cursor.peekAt(1).is(Kind.SYMBOL, "=")) {
                String name = cursor.name();
                cursor.next();
                named.put(name, expression());
            } else {
                positional.add(expression());
            }
            if (!cursor.take(Kind.SYMBOL, ",") && !cursor.peek().is(Kind.SYMBOL, ")")) {
                throw cursor.error(
                        "expected ',' or ')', found '" + cursor.peek().text() + "'");
            }
        }
        return new Expression.Arguments(positional, named);
    }

    private Expression postfix(Expression start) {
        Expression target = start;
        while (true) {
            if (cursor.take(Kind.SYMBOL, ".")) {
                Token token = cursor.next();
                if (token.kind() != Kind.INTEGER && token.kind() != Kind.NAME) {
                    cursor.back();
                    throw cursor.error("expected a name after '.', found '" + token.text() + "'");
                }
                target = token.kind() == Kind.INTEGER
                        ? new Expression.Item(target, new Expression.Literal(integer(token)))
                        : new Expression.Attribute(target, token.text());
            } else if (cursor.take(Kind.SYMBOL, "[")) {
                target = subscript(target);
            } else if (cursor.take(Kind.SYMBOL, "(")) {
                target = new Expression.Call(target, arguments());
            } else {
                return target;
            }
        }
    }

    private Expression subscript(Expression target) {
        Optional<Expression> from = Optional.empty();
        if (!cursor.peek().is(Kind.SYMBOL, ":")) {
            from = Optional.of(expression());
            if (cursor.take(Kind.SYMBOL, "]")) {
                return new Expression.Item(target, from.get());
            }
        }
        cursor.expect(Kind.SYMBOL, ":");
        Optional<Expression> to = sliceBound();
        Optional<Expression> step = cursor.take(Kind.SYMBOL, ":") ? sliceBound() : Optional.empty();
        cursor.expect(Kind.SYMBOL, "]");
        return new Expression.Slice(target, from, to, step);
    }

    private Optional<Expression> sliceBound() {
        boolean absent = cursor.peek().is(Kind.SYMBOL, ":") || cursor.peek().is(Kind.SYMBOL, "]");
        return absent ? Optional.empty() : Optional.of(expression());
    }

    private Expression primary() {
        Token token = cursor.next();
        return switch (token.kind()) {
            case STRING -> new Expression.Literal(strings(token.text()));
            case INTEGER -> new Expression.Literal(integer(token));
            case REAL -> new Expression.Literal(Double.valueOf(token.text().replace("_", "")));
            case NAME -> name(token.text());
            case SYMBOL -> symbol(token);
            case TEXT, OUTPUT_START, OUTPUT_END, BLOCK_START, BLOCK_END, END -> {
                cursor.back();
                throw cursor.error("an expression is missing");
            }
        };
    }

    /** Joins adjacent string literals, as Python does. */
    private String strings(String first) {
        StringBuilder value = new StringBuilder(first);
        while (cursor.peek().kind() == Kind.STRING) {
            value.append(cursor.next().text());
        }
        return value.toString();
    }

    private static Expression name(String name) {
        return switch (name) {
            case "true", "True" -> new Expression.Literal(true);
            case "false", "False" -> new Expression.Literal(false);
            case "none", "None" -> new Expression.Literal(Values.NONE);
            default -> new Expression.Name(name);
        };
    }

    private Expression symbol(Token token) {
        return switch (token.text()) {
            case "(" -> parenthesis();
            case "[" -> new Expression.ListOf(items("]"), false);
            case "{" -> dict();
            default -> throw cursor.error("unexpected '" + token.text() + "'");
        };
    }

    private Expression parenthesis() {
        if (cursor.take(Kind.SYMBOL, ")")) {
            return new Expression.ListOf(List.of(), true);
        }
        Expression first = expression();
        if (cursor.take(Kind.SYMBOL, ")")) {
            return first;
        }
        cursor.expect(Kind.SYMBOL, ",");
        List<Expression> all = new ArrayList<>(List.of(first));
        all.addAll(items(")"));
        return new Expression.ListOf(all, true);
    }

    private List<Expression> items(String end) {
        List<Expression> items = new ArrayList<>();
        while (!cursor.take(Kind.SYMBOL, end)) {
            items.add(expression());
            if (!cursor.take(Kind.SYMBOL, ",") && !cursor.peek().is(Kind.SYMBOL, end)) {
                throw cursor.error(
                        "expected ',' or '" + end + "', found '" + cursor.peek().text() + "'");
            }
        }
        return items;
    }

    private Expression dict() {
        List<Map.Entry<Expression, Expression>> entries = new ArrayList<>();
        while (!cursor.take(Kind.SYMBOL, "}")) {
            Expression key = expression();
            cursor.expect(Kind.SYMBOL, ":");
            entries.add(Map.entry(key, expression()));
            if (!cursor.take(Kind.SYMBOL, ",") && !cursor.peek().is(Kind.SYMBOL, "}")) {
                throw cursor.error(
                        "expected ',' or '}', found '" + cursor.peek().text() + "'");
            }
        }
        return new Expression.DictOf(entries);
    }
}
