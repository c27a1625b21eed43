package dev.tandem.text.jinja;

import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;

/**
 * Python's view of Java objects: None, Undefined, Boolean, Long, Double, String, List, Map with String keys, and
 * {@link Callable}.
 */
final class Values {
    static final Object NONE = new Object() {
        @Override
        public String toString() {
            return "None";
        }
    };

    /** A name that has no value: false, empty, and an error when one looks inside. */
    record Undefined(String name) {}

    interface Callable {
        Object call(List<Object> positional, Map<String, Object> named);
    }

    /** What {@code namespace()} returns: the only object a template may change through an attribute. */
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

    /** From JSON-like Java values: null becomes None, integers Long, other numbers Double. */
    static Object of(Object value) {
        return switch (value) {
            case null -> NONE;
            case Boolean b -> b;
            case Integer i -> i.longValue();
            case Long l -> l;
            case Number n -> n.doubleValue();
            case CharSequence s -> s.toString();
            case Collection<?> items -> {
                List<Object> list = new ArrayList<>();
                items.forEach(item -> list.add(of(item)));
                yield list;
            }
            case Map<?, ?> map -> {
                Map<String, Object> copy = new LinkedHashMap<>();
                map.forEach((key, item) -> copy.put(String.valueOf(key), of(item)));
                yield copy;
            }
            default -> value;
        };
    }

    static boolean truthy(Object value) {
        return switch (value) {
            case Undefined u -> false;
            case Boolean b -> b;
            case Long l -> l != 0;
            case Double d -> d != 0;
            case String s -> !s.isEmpty();
            case List<?> l -> !l.isEmpty();
            case Namespace n -> true;
            case Map<?, ?> m -> !m.isEmpty();
            default -> value != NONE;
        };
    }

    static boolean equal(Object a, Object b) {
        if (a instanceof Undefined && b instanceof Undefined) {
            return true;
        }
        if (isNumber(a) && isNumber(b)) {
            return number(a) == number(b);
        }
        if (a instanceof List<?> x && b instanceof List<?> y) {
            if (x.size() != y.size()) {
                return false;
            }
            for (int i = 0; i < x.size(); i++) {
                if (!equal(x.get(i), y.get(i))) {
                    return false;
                }
            }
            return true;
        }
        return Objects.equals(a, b);
    }

    /** Booleans are numbers in Python. */
    static boolean isNumber(Object value) {
        return value instanceof Long || value instanceof Double || value instanceof Boolean;
    }

    static double number(Object value) {
        return switch (value) {
            case Boolean b -> b ? 1 : 0;
            case Long l -> l;
            case Double d -> d;
            default -> throw new JinjaException(typeName(value) + " is not a number");
        };
    }

    static long integer(Object value) {
        return switch (value) {
            case Boolean b -> b ? 1 : 0;
            case Long l -> l;
            default -> throw new JinjaException(typeName(value) + " is not an integer");
        };
    }

    static int compare(Object a, Object b) {
        if (isNumber(a) && isNumber(b)) {
            return Double.compare(number(a), number(b));
        }
        if (a instanceof String x && b instanceof String y) {
            return x.compareTo(y);
        }
        if (a instanceof List<?> x && b instanceof List<?> y) {
            for (int i = 0; i < Math.min(x.size(), y.size()); i++) {
                int order = compare(x.get(i), y.get(i));
                if (order != 0) {
                    return order;
                }
            }
            return Integer.compare(x.size(), y.size());
        }
        throw new JinjaException(typeName(a) + " and " + typeName(b) + " cannot be compared");
    }

    static boolean contains(Object container, Object item) {
        return switch (container) {
            case String s -> {
                if (!(item instanceof String part)) {
                    throw new JinjaException("'in <string>' needs a string, not " + typeName(item));
                }
                yield s.contains(part);
            }
            case List<?> list -> list.stream().anyMatch(element -> equal(element, item));
            case Map<?, ?> map -> map.containsKey(item);
            case Undefined u -> false;
            default -> throw new JinjaException(typeName(container) + " is not a container");
        };
    }

    /** What a loop goes over: characters of strings, keys of mappings. */
    static List<Object> iterate(Object value) {
        return switch (value) {
            case List<?> list -> new ArrayList<>(list);
            case Map<?, ?> map -> new ArrayList<>(map.keySet());
            case String s -> {
                List<Object> characters = new ArrayList<>();
                s.codePoints().forEach(c -> characters.add(Character.toString(c)));
                yield characters;
            }
            case Undefined u -> new ArrayList<>();
            default -> throw new JinjaException(typeName(value) + " cannot be iterated");
        };
    }

    static String typeName(Object value) {
        return switch (value) {
            case Undefined u -> "undefined name '" + u.name() + "'";
            case Boolean b -> "bool";
            case Long l -> "int";
            case Double d -> "float";
            case String s -> "str";
            case List<?> l -> "list";
            case Map<?, ?> m -> "dict";
            default -> value == NONE ? "None" : value.getClass().getSimpleName();
        };
    }

    /** Python's {@code str()}. */
    static String text(Object value) {
        return switch (value) {
            case String s -> s;
            case Undefined u -> "";
            default -> repr(value);
        };
    }

    /** Python's {@code repr()}. */
    static String repr(Object value) {
        return switch (value) {
            case Boolean b -> b ? "True" : "False";
            case Double d -> real(d);
            case String s -> quote(s);
            case List<?> list -> {
                List<String> parts = new ArrayList<>();
                list.forEach(item -> parts.add(repr(item)));
                String joined = String.join(", ", parts);
                yield list instanceof Tuple ? "(" + joined + (parts.size() == 1 ? ",)" : ")") : "[" + joined + "]";
            }
            case Map<?, ?> map -> {
                List<String> parts = new ArrayList<>();
                map.forEach((key, item) -> parts.add(repr(key) + ": " + repr(item)));
                yield "{" + String.join(", ", parts) + "}";
            }
            case Undefined u -> "Undefined";
            default -> value.toString();
        };
    }

    private static String quote(String s) {
        char mark = s.contains("'") && !s.contains("\"") ? '"' : '\'';
        StringBuilder out = new StringBuilder().append(mark);
        s.chars().forEach(c -> {
            switch (c) {
                case '\n' -> out.append("\\n");
                case '\t' -> out.append("\\t");
                case '\r' -> out.append("\\r");
                case '\\' -> out.append("\\\\");
                default -> out.append(c == mark ? "\\" : "").append((char) c);
            }
        });
        return out.append(mark).toString();
    }

    /** Shortest digits that give the value back, in Python's notation. */
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
