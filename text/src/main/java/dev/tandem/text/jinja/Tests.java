package dev.tandem.text.jinja;

import java.util.List;
import java.util.Locale;
import java.util.Map;

/** Jinja's tests ({@code x is …}), by name. */
final class Tests {
    private Tests() {}

    static boolean holds(RenderBudget budget, String name, Object value, List<Object> args) {
        return switch (name) {
            case "defined" -> !(value instanceof Values.Undefined);
            case "undefined" -> value instanceof Values.Undefined;
            case "none" -> value == Values.NONE;
            case "string" -> value instanceof String;
            case "boolean" -> value instanceof Boolean;
            case "integer" -> Numbers.isInteger(value);
            case "float" -> value instanceof Double;
            case "number" -> Numbers.is(value);
            case "mapping" -> value instanceof Map;
            case "sequence" -> value instanceof List || value instanceof String || value instanceof Map;
            case "iterable" -> value instanceof List || value instanceof String || value instanceof Map;
            case "callable" -> value instanceof Values.Callable;
            case "true" -> Boolean.TRUE.equals(value);
            case "false" -> Boolean.FALSE.equals(value);
            case "odd" -> Values.truthy(remainder(value, 2L));
            case "even" -> !Values.truthy(remainder(value, 2L));
            case "divisibleby" -> !Values.truthy(remainder(value, args.getFirst()));
            case "equalto", "eq", "==", "sameas" -> Values.equal(budget, value, args.getFirst());
            case "ne", "!=" -> !Values.equal(budget, value, args.getFirst());
            case "gt", "greaterthan", ">" -> Values.compare(budget, value, args.getFirst()) > 0;
            case "ge", ">=" -> Values.compare(budget, value, args.getFirst()) >= 0;
            case "lt", "lessthan", "<" -> Values.compare(budget, value, args.getFirst()) < 0;
            case "le", "<=" -> Values.compare(budget, value, args.getFirst()) <= 0;
            case "in" -> Values.contains(budget, args.getFirst(), value);
            case "lower" -> value instanceof String s && s.equals(s.toLowerCase(Locale.ROOT));
            case "upper" -> value instanceof String s && s.equals(s.toUpperCase(Locale.ROOT));
            default -> throw new JinjaException("the test '" + name + "' is not known");
        };
    }

    private static Object remainder(Object value, Object divisor) {
        return Numbers.arithmetic("%", value, divisor);
    }
}
