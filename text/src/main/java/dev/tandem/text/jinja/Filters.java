package dev.tandem.text.jinja;

import java.math.BigInteger;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.function.UnaryOperator;

/** Jinja's filters, by name. */
final class Filters {
    private Filters() {}

    static Object apply(RenderBudget budget, String name, Object value, List<Object> args, Map<String, Object> named) {
        return switch (name) {
            case "default", "d" -> orDefault(value, args, named);
            case "length", "count" -> (long) size(value);
            case "trim" ->
                Methods.strip(
                        budget,
                        Values.text(budget, value),
                        args.isEmpty() ? "" : Values.string(args.getFirst()),
                        true,
                        true);
            case "upper" -> budget.made(Values.text(budget, value).toUpperCase(Locale.ROOT));
            case "lower" -> budget.made(Values.text(budget, value).toLowerCase(Locale.ROOT));
            case "capitalize" -> budget.made(Methods.capitalize(Values.text(budget, value)));
            case "title" -> budget.made(Methods.title(Values.text(budget, value)));
            case "string" -> Values.text(budget, value);
            case "safe" -> value;
            case "escape", "e" -> escape(budget, Values.text(budget, value));
            case "tojson" -> JsonText.of(budget, value, args, named);
            case "indent" -> indentText(budget, Values.text(budget, value), args, named);
            case "replace" ->
                Methods.replace(
                        budget,
                        Values.text(budget, value),
                        Values.text(budget, args.get(0)),
                        Values.text(budget, args.get(1)),
                        args.size() > 2 ? args.get(2) : Values.NONE);
            case "int" -> toInteger(value, args);
            case "float" -> toReal(value, args);
            case "abs" -> Numbers.absolute(value);
            case "round" -> round(value, args);
            case "items" -> value instanceof Map<?, ?> map ? Methods.items(budget, map) : new ArrayList<>();
            case "dictsort" -> dictSort(budget, value, args, named);
            default -> applyToList(budget, name, value, args, named);
        };
    }

    private static Object applyToList(
            RenderBudget budget, String name, Object value, List<Object> args, Map<String, Object> named) {
        return switch (name) {
            case "list" -> Values.copy(budget, value);
            case "first" -> {
                Object item =
                        Interpreter.item(budget, value instanceof Map ? Values.iterate(budget, value) : value, 0L);
                yield item instanceof Values.Undefined ? new Values.Undefined("first") : item;
            }
            case "last" -> {
                Object item =
                        Interpreter.item(budget, value instanceof Map ? Values.iterate(budget, value) : value, -1L);
                yield item instanceof Values.Undefined ? new Values.Undefined("last") : item;
            }
            case "join" -> join(budget, value, args, named);
            case "reverse" -> {
                if (value instanceof String s) {
                    yield budget.made(new StringBuilder(s).reverse().toString());
                }
                List<Object> items = Values.copy(budget, value);
                Collections.reverse(items);
                yield items;
            }
            case "unique" -> unique(budget, value, args, named);
            case "sort" -> sort(budget, value, args, named);
            case "sum" -> sum(budget, value, named);
            case "min" ->
                Values.iterate(budget, value).stream()
                        .min((a, b) -> Values.compare(budget, a, b))
                        .orElse(new Values.Undefined("min"));
            case "max" ->
                Values.iterate(budget, value).stream()
                        .max((a, b) -> Values.compare(budget, a, b))
                        .orElse(new Values.Undefined("max"));
            case "map" -> map(budget, value, args, named);
            case "select", "reject" -> select(budget, value, args, name.equals("select"));
            case "selectattr", "rejectattr" -> selectByAttribute(budget, value, args, name.equals("selectattr"));
            default -> throw new JinjaException("the filter '" + name + "' is not known");
        };
    }

    private static Object orDefault(Object value, List<Object> args, Map<String, Object> named) {
        Object otherwise = !args.isEmpty() ? args.getFirst() : named.getOrDefault("default_value", "");
        boolean falsy =
                args.size() > 1 ? Values.truthy(args.get(1)) : Values.truthy(named.getOrDefault("boolean", false));
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

    private static String indentText(RenderBudget budget, String text, List<Object> args, Map<String, Object> named) {
        Object width = argument(args, 0, named, "width", 4L);
        boolean first = Values.truthy(argument(args, 1, named, "first", false));
        boolean blank = Values.truthy(argument(args, 2, named, "blank", false));
        String unit = width instanceof String s ? s : " ";
        long times = width instanceof String ? 1 : Math.max(0, Numbers.integer(width));
        TextBuilder out = new TextBuilder(budget);
        int at = 0;
        for (int end = text.indexOf('\n'); at <= text.length(); end = text.indexOf('\n', at)) {
            int to = end < 0 ? text.length() : end;
            if (at == 0 ? first : to > at || blank) {
                out.repeat(unit, times);
            }
            out.append(text, at, to).append(end < 0 ? "" : "\n");
            at = to + 1;
        }
        return out.toString();
    }

    private static Object argument(
            List<Object> args, int index, Map<String, Object> named, String name, Object otherwise) {
        return index < args.size() ? args.get(index) : named.getOrDefault(name, otherwise);
    }

    private static String escape(RenderBudget budget, String text) {
        TextBuilder out = new TextBuilder(budget);
        for (int i = 0; i < text.length(); i++) {
            switch (text.charAt(i)) {
                case '&' -> out.append("&amp;");
                case '<' -> out.append("&lt;");
                case '>' -> out.append("&gt;");
                case '\'' -> out.append("&#39;");
                case '"' -> out.append("&#34;");
                default -> out.append(text.charAt(i));
            }
        }
        return out.toString();
    }

    private static Object toInteger(Object value, List<Object> args) {
        try {
            return switch (value) {
                case String s ->
                    s.contains(".") || s.contains("e")
                            ? Numbers.truncate(Double.parseDouble(s.strip()))
                            : Numbers.parse(s.strip(), 10);
                case BigInteger i -> i;
                case Long l -> l;
                default -> Numbers.truncate(Numbers.real(value));
            };
        } catch (NumberFormatException | JinjaException e) {
            return args.isEmpty() ? 0L : args.getFirst();
        }
    }

    private static Object toReal(Object value, List<Object> args) {
        try {
            return value instanceof String s ? Double.parseDouble(s.strip()) : Numbers.real(value);
        } catch (NumberFormatException | JinjaException e) {
            return args.isEmpty() ? 0.0 : args.getFirst();
        }
    }

    private static Object round(Object value, List<Object> args) {
        double scale = Math.pow(10, args.isEmpty() ? 0 : Numbers.integer(args.getFirst()));
        return Math.rint(Numbers.real(value) * scale) / scale;
    }

    private static String join(RenderBudget budget, Object value, List<Object> args, Map<String, Object> named) {
        String separator = Values.text(budget, argument(args, 0, named, "d", ""));
        Object attribute = argument(args, 1, named, "attribute", Values.NONE);
        List<?> items = Values.iterate(budget, value);
        return Methods.join(
                budget,
                separator,
                attribute == Values.NONE
                        ? items
                        : items.stream()
                                .map(item -> attribute(item, Values.string(attribute)))
                                .toList());
    }

    private static List<Object> dictSort(
            RenderBudget budget, Object value, List<Object> args, Map<String, Object> named) {
        if (!(value instanceof Map<?, ?> map)) {
            throw new JinjaException("dictsort of a " + Values.typeName(value));
        }
        boolean caseSensitive = Values.truthy(argument(args, 0, named, "case_sensitive", false));
        int by = switch (Values.string(argument(args, 1, named, "by", "key"))) {
            case "key" -> 0;
            case "value" -> 1;
            default -> throw new JinjaException("dictsort sorts by 'key' or by 'value'");
        };
        List<Object> pairs = Methods.items(budget, map);
        sort(
                budget,
                pairs,
                pair -> ((List<?>) pair).get(by),
                caseSensitive,
                Values.truthy(argument(args, 2, named, "reverse", false)));
        return pairs;
    }

    private static Object sort(RenderBudget budget, Object value, List<Object> args, Map<String, Object> named) {
        List<Object> items = Values.copy(budget, value);
        boolean reverse = Values.truthy(argument(args, 0, named, "reverse", false));
        boolean caseSensitive = Values.truthy(argument(args, 1, named, "case_sensitive", false));
        Object attribute = argument(args, 2, named, "attribute", Values.NONE);
        sort(
                budget,
                items,
                attribute == Values.NONE ? item -> item : item -> attribute(item, Values.string(attribute)),
                caseSensitive,
                reverse);
        return items;
    }

    /** A stable sort: equal items keep their order, also in reverse. */
    private static void sort(
            RenderBudget budget,
            List<Object> items,
            UnaryOperator<Object> key,
            boolean caseSensitive,
            boolean reverse) {
        Comparator<Object> order = (a, b) -> Values.compare(
                budget, folded(budget, key.apply(a), caseSensitive), folded(budget, key.apply(b), caseSensitive));
        items.sort(reverse ? order.reversed() : order);
    }

    private static Object folded(RenderBudget budget, Object value, boolean caseSensitive) {
        if (caseSensitive || !(value instanceof String s)) {
            return value;
        }
        budget.read(s.length());
        return s.toLowerCase(Locale.ROOT);
    }

    private static List<Object> unique(
            RenderBudget budget, Object value, List<Object> args, Map<String, Object> named) {
        boolean caseSensitive = Values.truthy(argument(args, 0, named, "case_sensitive", false));
        List<Object> items = new ArrayList<>();
        List<Object> seen = new ArrayList<>();
        for (Object item : Values.iterate(budget, value)) {
            Object folded = folded(budget, item, caseSensitive);
            if (!Values.contains(budget, seen, folded)) {
                budget.elements(2);
                seen.add(folded);
                items.add(item);
            }
        }
        return items;
    }

    private static Object sum(RenderBudget budget, Object value, Map<String, Object> named) {
        Object total = named.getOrDefault("start", 0L);
        for (Object item : Values.iterate(budget, value)) {
            total = Numbers.arithmetic(
                    "+", total, named.get("attribute") instanceof String name ? attribute(item, name) : item);
        }
        return total;
    }

    /** Reads an attribute; a path with dots reads nested ones. */
    private static Object attribute(Object item, String path) {
        Object value = item;
        for (String name : path.split("\\.")) {
            Object inner = value instanceof Map<?, ?> map ? map.get(name) : null;
            value = inner == null ? new Values.Undefined(name) : inner;
        }
        return value;
    }

    private static Object map(RenderBudget budget, Object value, List<Object> args, Map<String, Object> named) {
        List<Object> mapped = new ArrayList<>();
        for (Object item : Values.iterate(budget, value)) {
            budget.elements(1);
            if (named.get("attribute") instanceof String name) {
                Object found = attribute(item, name);
                mapped.add(
                        found instanceof Values.Undefined && named.containsKey("default")
                                ? named.get("default")
                                : found);
            } else {
                mapped.add(
                        apply(budget, Values.text(budget, args.getFirst()), item, args.subList(1, args.size()), named));
            }
        }
        return mapped;
    }

    /** The items to select from; None has none. */
    private static List<Object> orEmpty(RenderBudget budget, Object value) {
        return value == Values.NONE ? List.of() : Values.iterate(budget, value);
    }

    private static Object select(RenderBudget budget, Object value, List<Object> args, boolean keep) {
        List<Object> kept = new ArrayList<>();
        for (Object item : orEmpty(budget, value)) {
            boolean holds = args.isEmpty()
                    ? Values.truthy(item)
                    : Tests.holds(budget, Values.text(budget, args.getFirst()), item, args.subList(1, args.size()));
            if (holds == keep) {
                budget.elements(1);
                kept.add(item);
            }
        }
        return kept;
    }

    private static Object selectByAttribute(RenderBudget budget, Object value, List<Object> args, boolean keep) {
        String name = Values.text(budget, args.getFirst());
        List<Object> kept = new ArrayList<>();
        for (Object item : orEmpty(budget, value)) {
            Object found = attribute(item, name);
            boolean holds = args.size() == 1
                    ? Values.truthy(found)
                    : Tests.holds(budget, Values.text(budget, args.get(1)), found, args.subList(2, args.size()));
            if (holds == keep) {
                budget.elements(1);
                kept.add(item);
            }
        }
        return kept;
    }
}
