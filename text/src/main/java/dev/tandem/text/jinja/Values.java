package dev.tandem.text.jinja;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;

/**
 * Python's semantics for Java objects: None, Undefined, Boolean, Long (BigInteger if it does not fit), Double, String,
 * List, Map, and {@link Callable}.
 */
final class Values {
    static final Object NONE = new Object() {
        @Override
        public String toString() {
            return "None";
        }
    };

    /** A name without a value: it is false and empty, and reading its attributes is an error. */
    record Undefined(String name) {}

    interface Callable {
        Object call(List<Object> positional, Map<String, Object> named);
    }

    /** The result of {@code namespace()}: the only object whose attributes a template may set. */
    static final class Namespace extends LinkedHashMap<String, Object> {}

    /** A list that prints with parentheses. */
    static final class Tuple extends ArrayList<Object> {
        static Tuple of(Object... items) {
            Tuple tuple = new Tuple();
            tuple.addAll(Arrays.asList(items));
            return tuple;
        }
    }

    private Values() {}

    /** Converts JSON-like Java values: null becomes None, integers Long or BigInteger, other numbers Double. */
    static Object of(RenderBudget budget, Object value) {
        return of(budget, value, 0);
    }

    private static Object of(RenderBudget budget, Object value, int level) {
        RenderBudget.nested(level);
        return switch (value) {
            case null -> NONE;
            case Boolean b -> b;
            case Integer i -> i.longValue();
            case Long l -> l;
            case BigInteger i -> Numbers.of(i);
            case Number n -> n.doubleValue();
            case CharSequence s -> s.toString();
            case Collection<?> items -> {
                budget.elements(items.size());
                List<Object> list = new ArrayList<>(items.size());
                for (Object item : items) {
                    list.add(of(budget, item, level + 1));
                }
                yield list;
            }
            case Map<?, ?> map -> {
                budget.elements(map.size());
                Map<String, Object> copy = new LinkedHashMap<>();
                for (Map.Entry<?, ?> entry : map.entrySet()) {
                    copy.put(String.valueOf(entry.getKey()), of(budget, entry.getValue(), level + 1));
                }
                yield copy;
            }
            default ->
                throw new JinjaException(
                        "a template cannot take a " + value.getClass().getSimpleName());
        };
    }

    static boolean truthy(Object value) {
        return switch (value) {
            case Undefined u -> false;
            case Boolean b -> b;
            case Long l -> l != 0;
            case BigInteger i -> i.signum() != 0;
            case Double d -> d != 0;
            case String s -> !s.isEmpty();
            case List<?> l -> !l.isEmpty();
            case Namespace n -> true;
            case Map<?, ?> m -> !m.isEmpty();
            default -> value != NONE;
        };
    }

    static boolean equal(RenderBudget budget, Object a, Object b) {
        return equal(budget, a, b, 0);
    }

    private static boolean equal(RenderBudget budget, Object a, Object b, int level) {
        RenderBudget.nested(level);
        budget.steps(1);
        if (a instanceof Undefined && b instanceof Undefined) {
            return true;
        }
        if (Numbers.is(a) && Numbers.is(b)) {
            return Numbers.equal(a, b);
        }
        if (a instanceof List<?> x && b instanceof List<?> y) {
            if (x.size() != y.size()) {
                return false;
            }
            for (int i = 0; i < x.size(); i++) {
                if (!equal(budget, x.get(i), y.get(i), level + 1)) {
                    return false;
                }
            }
            return true;
        }
        if (a instanceof Map<?, ?> x && b instanceof Map<?, ?> y) {
            if (x.size() != y.size()) {
                return false;
            }
            for (Map.Entry<?, ?> entry : x.entrySet()) {
                Object other = y.get(entry.getKey());
                if (other == null || !equal(budget, entry.getValue(), other, level + 1)) {
                    return false;
                }
            }
            return true;
        }
        if (a instanceof String x && b instanceof String y) {
            budget.read(Math.min(x.length(), y.length()));
            return x.equals(y);
        }
        return Objects.equals(a, b);
    }

    static int compare(RenderBudget budget, Object a, Object b) {
        return compare(budget, a, b, 0);
    }

    private static int compare(RenderBudget budget, Object a, Object b, int level) {
        RenderBudget.nested(level);
        budget.steps(1);
        if (Numbers.is(a) && Numbers.is(b)) {
            return Numbers.compare(a, b);
        }
        if (a instanceof String x && b instanceof String y) {
            budget.read(Math.min(x.length(), y.length()));
            return x.compareTo(y);
        }
        if (a instanceof List<?> x && b instanceof List<?> y) {
            for (int i = 0; i < Math.min(x.size(), y.size()); i++) {
                int order = compare(budget, x.get(i), y.get(i), level + 1);
                if (order != 0) {
                    return order;
                }
            }
            return Integer.compare(x.size(), y.size());
        }
        throw new JinjaException(typeName(a) + " and " + typeName(b) + " cannot be compared");
    }

    static boolean contains(RenderBudget budget, Object container, Object item) {
        return switch (container) {
            case String s -> {
                if (!(item instanceof String part)) {
                    throw new JinjaException("'in <string>' needs a string, not " + typeName(item));
                }
                budget.read(s.length());
                yield s.contains(part);
            }
            case List<?> list -> list.stream().anyMatch(element -> equal(budget, element, item));
            case Map<?, ?> map -> map.containsKey(key(item));
            case Undefined u -> false;
            default -> throw new JinjaException(typeName(container) + " is not a container");
        };
    }

    /** Checks that a value can be the key of a mapping. */
    static Object key(Object value) {
        if (value instanceof List || value instanceof Map) {
            throw new JinjaException("a " + typeName(value) + " cannot be the key of a dict");
        }
        return value;
    }

    /** The items of a loop, read-only: characters of a string, keys of a mapping, elements of a list. */
    static List<Object> iterate(RenderBudget budget, Object value) {
        return switch (value) {
            case List<?> list -> {
                budget.steps(list.size());
                @SuppressWarnings("unchecked")
                List<Object> items = (List<Object>) list;
                yield items;
            }
            case Map<?, ?> map -> {
                budget.elements(map.size());
                yield new ArrayList<>(map.keySet());
            }
            case String s -> {
                budget.elements(s.length());
                List<Object> characters = new ArrayList<>(s.length());
                s.codePoints().forEach(c -> characters.add(Character.toString(c)));
                yield characters;
            }
            case Undefined u -> List.of();
            default -> throw new JinjaException(typeName(value) + " cannot be iterated");
        };
    }

    /** The items of {@link #iterate} in a new list. */
    static List<Object> copy(RenderBudget budget, Object value) {
        List<Object> items = iterate(budget, value);
        if (items != value && !items.isEmpty()) {
            return items;
        }
        budget.elements(items.size());
        return new ArrayList<>(items);
    }

    static String typeName(Object value) {
        return switch (value) {
            case Undefined u -> "undefined name '" + u.name() + "'";
            case Boolean b -> "bool";
            case Long l -> "int";
            case BigInteger i -> "int";
            case Double d -> "float";
            case String s -> "str";
            case Tuple t -> "tuple";
            case List<?> l -> "list";
            case Map<?, ?> m -> "dict";
            case Callable c -> "function";
            default -> value == NONE ? "None" : value.getClass().getSimpleName();
        };
    }

    static String string(Object value) {
        if (!(value instanceof String s)) {
            throw new JinjaException(typeName(value) + " is not a string");
        }
        return s;
    }

    /** Python's {@code str()}. */
    static String text(RenderBudget budget, Object value) {
        return switch (value) {
            case String s -> s;
            case Undefined u -> "";
            default -> repr(budget, value);
        };
    }

    /** Python's {@code repr()}. */
    static String repr(RenderBudget budget, Object value) {
        TextBuilder out = new TextBuilder(budget);
        repr(budget, value, out, 0);
        return out.toString();
    }

    private static void repr(RenderBudget budget, Object value, TextBuilder out, int level) {
        RenderBudget.nested(level);
        budget.steps(1);
        switch (value) {
            case Boolean b -> out.append(b ? "True" : "False");
            case Double d -> out.append(real(d));
            case String s -> quote(s, out);
            case List<?> list -> {
                out.append(list instanceof Tuple ? "(" : "[");
                for (int i = 0; i < list.size(); i++) {
                    out.append(i == 0 ? "" : ", ");
                    repr(budget, list.get(i), out, level + 1);
                }
                out.append(!(list instanceof Tuple) ? "]" : list.size() == 1 ? ",)" : ")");
            }
            case Map<?, ?> map -> {
                out.append('{');
                boolean first = true;
                for (Map.Entry<?, ?> entry : map.entrySet()) {
                    out.append(first ? "" : ", ");
                    first = false;
                    repr(budget, entry.getKey(), out, level + 1);
                    out.append(": ");
                    repr(budget, entry.getValue(), out, level + 1);
                }
                out.append('}');
            }
            case Undefined u -> out.append("Undefined");
            case Callable c -> out.append("<function>");
            default -> out.append(value.toString());
        }
    }

    private static void quote(String s, TextBuilder out) {
        char mark = s.contains("'") && !s.contains("\"") ? '"' : '\'';
        out.append(mark);
        for (int i = 0; i < s.length(); i++) {
            char c = s.charAt(i);
            switch (c) {
                case '\n' -> out.append("\\n");
                case '\t' -> out.append("\\t");
                case '\r' -> out.append("\\r");
                case '\\' -> out.append("\\\\");
                default -> {
                    if (c < ' ' || c == 0x7f) {
                        out.append(String.format("\\x%02x", (int) c));
                    } else {
                        out.append(c == mark ? "\\" : "").append(c);
                    }
                }
            }
        }
        out.append(mark);
    }

    /** The shortest digits that parse to the same value, in Python's notation. */
    static String real(double value) {
        if (value == Math.rint(value) && Math.abs(value) < 1e16) {
            return String.format(Locale.ROOT, "%.1f", value);
        }
        if (Double.isNaN(value) || Double.isInfinite(value)) {
            return Double.isNaN(value) ? "nan" : value > 0 ? "inf" : "-inf";
        }
        double magnitude = Math.abs(value);
        if (magnitude >= 1e-4 && magnitude < 1e16) {
            return new BigDecimal(Double.toString(value)).toPlainString();
        }
        String text = Double.toString(value).replace(".0E", "E");
        int exponent = text.indexOf('E');
        int power = Integer.parseInt(text.substring(exponent + 1));
        String sign = power < 0 ? "-" : "+";
        return text.substring(0, exponent) + "e" + sign + (Math.abs(power) < 10 ? "0" : "") + Math.abs(power);
    }
}
