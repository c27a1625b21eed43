package dev.tandem.text.jinja;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Optional;

/** A node of a template's syntax tree. */
sealed interface Node {
    record Text(String text) implements Node {}

    record Output(Expression expression) implements Node {}

    record If(List<Branch> branches, List<Node> elseBody) implements Node {
        record Branch(Expression condition, List<Node> body) {}
    }

    record For(
            List<String> targets,
            Expression items,
            Optional<Expression> condition,
            List<Node> body,
            List<Node> elseBody)
            implements Node {}

    /** An assignment to one name, or to several names that unpack the value. */
    record Set(List<String> targets, Expression value) implements Node {}

    record SetAttribute(String object, String attribute, Expression value) implements Node {}

    record SetBlock(String target, List<Node> body) implements Node {}

    /** A macro; its parameters are in order, with their defaults. */
    record Macro(String name, LinkedHashMap<String, Optional<Expression>> parameters, List<Node> body)
            implements Node {}

    record FilterBlock(String name, Expression.Arguments arguments, List<Node> body) implements Node {}

    record Break() implements Node {}

    record Continue() implements Node {}
}
