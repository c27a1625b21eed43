package dev.tandem.text.jinja;

import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/** Jinja's filters, by name. */
final class Filters {
    private Filters() {}

    static Object apply(String name, Object value, List<Object> args, Map<String, Object> named) {
        return switch (name) {
            case "default", "d" -> orDefault(value, args, named);
            case "length", "count" -> (long) size(value);
            case "trim" -> Methods.strip(Values.text(value), args.isEmpty() ? "" : (String) args.getFirst(), true, true);
            case "upper" -> Values.text(value).toUpperCase(Locale.ROOT);
            case "lower" -> Values.text(value).toLowerCase(Locale.ROOT);
            case "capitalize" -> Methods.capitalize(Values.text(value));
            case "title" -> Methods.title(Values.text(value));
            case "string" -> Values.text(value);
            case "safe" -> value;
            case "escape", "e" -> escape(Values.text(value));
            case "tojson" -> JsonText.of(value, indent(args, named));
            case "indent" -> indentText(Values.text(value), args, named);
            case "replace" -> Methods.replace(
                    Values.text(value), Values.text(args.get(0)), Values.text(args.get(1)),
                    args.size() > 2 ? Values.integer(args.get(2)) : -1);
            case "int" -> toInteger(value, args);
            case "float" -> toReal(value, args);
            case "abs" -> value instanceof Long l ? (Object) Math.abs(l) : (Object) Math.abs(Values.number(value));
            case "round" -> round(value, args);
            case "items" -> value instanceof Map<?, ?> map ? Methods.items(map) : new ArrayList<>();
            case "dictsort" -> {
                List<Object> pairs = Methods.items((Map<?, ?>) value);
                pairs.sort(Comparator.comparing(pair -> Values.text(((List<?>) pair).getFirst()).toLowerCase(Locale.ROOT)));
                yield pairs;
            }
            default -> applyToList(name, value, args, named);
        };
    }

    private static Object applyToList(String name, Object value, List<Object> args, Map<String, Object> named) {
        return switch (name) {
            case "list" -> Values.iterate(value);
            case "first" -> Values.iterate(value).stream().findFirst().orElse(new Values.Undefined("first"));
            case "last" -> {
                List<Object> items = Values.iterate(value);
                yield items.isEmpty() ? new Values.Undefined("last") : items.getLast();
            }
            case "join" -> join(value, args, named);
            case "reverse" -> {
                List<Object> items = Values.iterate(value);
                Collections.reverse(items);
                yield value instanceof String ? join(items, List.of(), Map.of()) : items;
            }
            case "unique" -> {
                List<Object> items = new ArrayList<>();
                Values.iterate(value).stream()
                        .filter(item -> !Values.contains(items, item))
                        .forEach(items::add);
                yield items;
            }
            case "sort" -> sort(value, named);
            case "sum" -> sum(value, named);
            case "min" -> Values.iterate(value).stream().min(Values::compare).orElse(new Values.Undefined("min"));
            case "max" -> Values.iterate(value).stream().max(Values::compare).orElse(new Values.Undefined("max"));
            case "map" -> map(value, args, named);
            case "select", "reject" -> select(value, args, named, name.equals("select"));
            case "selectattr", "rejectattr" -> selectByAttribute(value, args, named, name.equals("selectattr"));
            default -> throw new JinjaException("the filter '" + name + "' is not known");
        };
    }

    private static Object orDefault(Object value, List<Object> args, Map<String, Object> named) {
        Object otherwise = !args.isEmpty() ? args.getFirst() : named.getOrDefault("default_value", "");
        boolean falsy = args.size() > 1 ? Values.truthy(args.get(1)) : Values.truthy(named.getOrDefault("boolean", false));
        boolean absent = value instanceof Values.Undefined || falsy && !Values.truthy(value);
        return absent ? otherwise : value;
    }

    static int size(Object value) {
        return switch (value) {
            case String s -> s.codePointCount(0, s.length());
            case List<?> list -> list.size();
            case Map<?, ?> map -> map.size();
            case Values.Undefined u -> 0;
            default -> throw new JinjaException(Values.typeName(value) + " has no length");
        };
    }

    private static int indent(List<Object> args, Map<String, Object> named) {
        Object indent = named.getOrDefault("indent", args.isEmpty() ? Values.NONE : args.getFirst());
        return indent == Values.NONE ? -1 : (int) Values.integer(indent);
    }

    private static String indentText(String text, List<Object> args, Map<String, Object> named) {
        Object width = args.isEmpty() ? named.getOrDefault("width", 4L) : args.getFirst();
        String blanks = width instanceof String s ? s : " ".repeat((int) Values.integer(width));
        boolean first = Values.truthy(args.size() > 1 ? args.get(1) : named.getOrDefault("first", false));
        String[] lines = text.split("\n", -1);
        for (int i = 0; i < lines.length; i++) {
            boolean blank = lines[i].isEmpty();
            lines[i] = i == 0 && !first || i > 0 && blank ? lines[i] : blanks + lines[i];
        }
        return String.join("\n", lines);
    }

    private static String escape(String text) {
        return text.replace("&", "&amp;")
                .replace("<", "&lt;")
                .replace(">", "&gt;")
                .replace("'", "&#39;")
                .replace("\"", "&#34;");
    }

    private static Object toInteger(Object value, List<Object> args) {
        try {
            return switch (value) {
                case String s -> s.contains(".") ? (long) Double.parseDouble(s.strip()) : Long.parseLong(s.strip());
                default -> (long) Values.number(value);
            };
        } catch (NumberFormatException | JinjaException e) {
            return args.isEmpty() ? 0L : args.getFirst();
        }
    }

    private static Object toReal(Object value, List<Object> args) {
        try {
            return value instanceof String s ? Double.parseDouble(s.strip()) : Values.number(value);
        } catch (NumberFormatException | JinjaException e) {
            return args.isEmpty() ? 0.0 : args.getFirst();
        }
    }

    private static Object round(Object value, List<Object> args) {
        double scale = Math.pow(10, args.isEmpty() ? 0 : Values.integer(args.getFirst()));
        return Math.rint(Values.number(value) * scale) / scale;
    }

    private static String join(Object value, List<Object> args, Map<String, Object> named) {
        String separator = Values.text(args.isEmpty() ? named.getOrDefault("d", "") : args.getFirst());
        Object attribute = args.size() > 1 ? args.get(1) : named.get("attribute");
        return String.join(
                separator,
                Values.iterate(value).stream()
                        .map(item -> Values.text(attribute == null ? item : attribute(item, Values.text(attribute))))
                        .toList());
    }

    private static Object sort(Object value, Map<String, Object> named) {
        List<Object> items = Values.iterate(value);
        Comparator<Object> order = Values::compare;
        if (named.get("attribute") instanceof String attribute) {
            order = (a, b) -> Values.compare(attribute(a, attribute), attribute(b, attribute));
        }
        items.sort(Values.truthy(named.getOrDefault("reverse", false)) ? order.reversed() : order);
        return items;
    }

    private static Object sum(Object value, Map<String, Object> named) {
        Object total = 0L;
        for (Object item : Values.iterate(value)) {
            Object term = named.get("attribute") instanceof String name ? attribute(item, name) : item;
            total = total instanceof Long a && term instanceof Long b
                    ? (Object) (a + b)
                    : (Object) (Values.number(total) + Values.number(term));
        }
        return total;
    }

    /** Nested attributes with dots. */
    private static Object attribute(Object item, String path) {
        Object value = item;
        for (String name : path.split("\\.")) {
            Object inner = value instanceof Map<?, ?> map ? map.get(name) : null;
            value = inner == null ? new Values.Undefined(name) : inner;
        }
        return value;
    }

    private static Object map(Object value, List<Object> args, Map<String, Object> named) {
        List<Object> mapped = new ArrayList<>();
        for (Object item : Values.iterate(value)) {
            if (named.get("attribute") instanceof String name) {
                Object found = attribute(item, name);
                mapped.add(found instanceof Values.Undefined && named.containsKey("default") ? named.get("default") : found);
            } else {
                mapped.add(apply(Values.text(args.getFirst()), item, args.subList(1, args.size()), named));
            }
        }
        return mapped;
    }

    /** Selecting from None gives nothing. */
    private static List<Object> orNothing(Object value) {
        return value == Values.NONE ? List.of() : Values.iterate(value);
    }

    private static Object select(Object value, List<Object> args, Map<String, Object> named, boolean keep) {
        List<Object> kept = new ArrayList<>();
        for (Object item : orNothing(value)) {
            boolean holds = args.isEmpty()
                    ? Values.truthy(item)
                    : Tests.holds(Values.text(args.getFirst()), item, args.subList(1, args.size()));
            if (holds == keep) {
                kept.add(item);
            }
        }
        return kept;
    }

    private static Object selectByAttribute(Object value, List<Object> args, Map<String, Object> named, boolean keep) {
        String name = Values.text(args.getFirst());
        List<Object> kept = new ArrayList<>();
        for (Object item : orNothing(value)) {
            Object found = attribute(item, name);
            boolean holds = args.size() == 1
                    ? Values.truthy(found)
                    : Tests.holds(Values.text(args.get(1)), found, args.subList(2, args.size()));
            if (holds == keep) {
                kept.add(item);
            }
        }
        return kept;
    }

}
