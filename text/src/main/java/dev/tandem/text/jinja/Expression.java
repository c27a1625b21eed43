package dev.tandem.text.jinja;

import java.util.List;
import java.util.Map;
import java.util.Optional;

/** An expression inside a template tag. */
sealed interface Expression {
    record Literal(Object value) implements Expression {}

    record Name(String name) implements Expression {}

    record ListOf(List<Expression> items, boolean tuple) implements Expression {}

    record DictOf(List<Map.Entry<Expression, Expression>> entries) implements Expression {}

    record Attribute(Expression target, String name) implements Expression {}

    record Item(Expression target, Expression index) implements Expression {}

    record Slice(Expression target, Optional<Expression> from, Optional<Expression> to, Optional<Expression> step)
            implements Expression {}

    record Arguments(List<Expression> positional, Map<String, Expression> named) {
        static final Arguments NONE = new Arguments(List.of(), Map.of());
    }

    record Call(Expression target, Arguments arguments) implements Expression {}

    record Filter(Expression target, String name, Arguments arguments) implements Expression {}

    record Test(Expression target, String name, Arguments arguments, boolean negated) implements Expression {}

    record Unary(String operator, Expression operand) implements Expression {}

    record Binary(String operator, Expression left, Expression right) implements Expression {}

    /** One comparison, or a chain such as {@code a < b < c}. */
    record Comparison(Expression first, List<Part> parts) implements Expression {
        record Part(String operator, Expression operand) {}
    }

    record Conditional(Expression condition, Expression then, Optional<Expression> elseValue) implements Expression {}
}
