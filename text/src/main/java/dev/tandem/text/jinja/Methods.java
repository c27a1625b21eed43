package dev.tandem.text.jinja;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/** Methods of Python's str, list and dict that templates call. */
final class Methods {
    private Methods() {}

    static Optional<Values.Callable> find(RenderBudget budget, Object target, String name) {
        return switch (target) {
            case String s -> ofString(budget, s, name);
            case List<?> list -> ofList(budget, list, name);
            case Map<?, ?> map -> ofMap(budget, map, name);
            default -> Optional.empty();
        };
    }

    private static Optional<Values.Callable> ofString(RenderBudget budget, String s, String name) {
        return Optional.ofNullable(
                switch (name) {
                    case "strip" -> (args, named) -> strip(budget, s, characters(args), true, true);
                    case "lstrip" -> (args, named) -> strip(budget, s, characters(args), true, false);
                    case "rstrip" -> (args, named) -> strip(budget, s, characters(args), false, true);
                    case "upper" -> (args, named) -> budget.made(s.toUpperCase(Locale.ROOT));
                    case "lower" -> (args, named) -> budget.made(s.toLowerCase(Locale.ROOT));
                    case "title" -> (args, named) -> budget.made(title(s));
                    case "capitalize" -> (args, named) -> budget.made(capitalize(s));
                    case "startswith" ->
                        (args, named) -> anyOf(args.getFirst()).stream().anyMatch(s::startsWith);
                    case "endswith" ->
                        (args, named) -> anyOf(args.getFirst()).stream().anyMatch(s::endsWith);
                    case "replace" -> (args, named) -> replace(budget, s, args);
                    case "split" -> (args, named) -> split(budget, s, args, named);
                    case "rsplit" -> (args, named) -> splitFromRight(budget, s, args, named);
                    case "splitlines" -> (args, named) -> lines(budget, s);
                    case "find" -> (args, named) -> find(budget, s, Values.string(args.getFirst()));
                    case "count" -> (args, named) -> count(budget, s, Values.string(args.getFirst()));
                    case "join" -> (args, named) -> join(budget, s, Values.iterate(budget, args.getFirst()));
                    case "format" -> (args, named) -> format(budget, s, args, named);
                    case "isdigit" -> (args, named) -> !s.isEmpty() && s.chars().allMatch(Character::isDigit);
                    case "isspace" -> (args, named) -> !s.isEmpty() && s.isBlank();
                    default -> null;
                });
    }

    private static Optional<Values.Callable> ofList(RenderBudget budget, List<?> list, String name) {
        @SuppressWarnings("unchecked")
        List<Object> items = (List<Object>) list;
        return Optional.ofNullable(
                switch (name) {
                    case "append" ->
                        (args, named) -> {
                            budget.elements(1);
                            items.add(args.getFirst());
                            return Values.NONE;
                        };
                    case "pop" ->
                        (args, named) -> {
                            long at = args.isEmpty() ? -1 : Numbers.integer(args.getFirst());
                            return items.remove(Math.toIntExact(at < 0 ? at + items.size() : at));
                        };
                    case "index" ->
                        (args, named) -> {
                            for (int i = 0; i < items.size(); i++) {
                                if (Values.equal(budget, items.get(i), args.getFirst())) {
                                    return (long) i;
                                }
                            }
                            throw new JinjaException("the list does not contain the argument of index()");
                        };
                    default -> null;
                });
    }

    private static Optional<Values.Callable> ofMap(RenderBudget budget, Map<?, ?> map, String name) {
        return Optional.ofNullable(
                switch (name) {
                    case "items" -> (args, named) -> items(budget, map);
                    case "keys" -> (args, named) -> Values.copy(budget, map);
                    case "values" ->
                        (args, named) -> {
                            budget.elements(map.size());
                            return new ArrayList<Object>(map.values());
                        };
                    case "get" ->
                        (args, named) -> {
                            Object value = map.get(Values.key(args.getFirst()));
                            return value != null ? value : args.size() > 1 ? args.get(1) : Values.NONE;
                        };
                    default -> null;
                });
    }

    static List<Object> items(RenderBudget budget, Map<?, ?> map) {
        budget.elements(3L * map.size());
        List<Object> pairs = new ArrayList<>(map.size());
        map.forEach((key, value) -> pairs.add(Values.Tuple.of(key, value)));
        return pairs;
    }

    private static List<String> anyOf(Object argument) {
        return argument instanceof List<?> list
                ? list.stream().map(Values::string).toList()
                : List.of(Values.string(argument));
    }

    private static String characters(List<Object> args) {
        return args.isEmpty() || args.getFirst() == Values.NONE ? "" : Values.string(args.getFirst());
    }

    static String strip(RenderBudget budget, String s, String characters, boolean left, boolean right) {
        int from = 0;
        int to = s.length();
        while (left && from < to && strips(s.charAt(from), characters)) {
            from++;
        }
        while (right && to > from && strips(s.charAt(to - 1), characters)) {
            to--;
        }
        budget.read((long) (s.length() - (to - from)) * characters.length());
        return budget.made(s.substring(from, to));
    }

    private static boolean strips(char c, String characters) {
        return characters.isEmpty() ? isBlank(c) : characters.indexOf(c) >= 0;
    }

    /** Whether Python's {@code str.isspace} holds. */
    private static boolean isBlank(int c) {
        return Character.isWhitespace(c) || Character.isSpaceChar(c) || c == 0x85;
    }

    private static String replace(RenderBudget budget, String s, List<Object> args) {
        return replace(
                budget,
                s,
                Values.string(args.get(0)),
                Values.string(args.get(1)),
                args.size() > 2 ? args.get(2) : Values.NONE);
    }

    /** @param count max number of replacements; all when it is None or negative */
    static String replace(RenderBudget budget, String s, String from, String to, Object count) {
        long max = count == Values.NONE ? -1 : Numbers.integer(count);
        max = max < 0 ? Long.MAX_VALUE : max;
        budget.read(s.length());
        TextBuilder out = new TextBuilder(budget);
        int at = 0;
        for (long done = 0; done < max; done++) {
            if (from.isEmpty()) { // before each character, and at the end
                out.append(to);
                if (at == s.length()) {
                    return out.toString();
                }
                int next = s.offsetByCodePoints(at, 1);
                out.append(s, at, next);
                at = next;
                continue;
            }
            int next = s.indexOf(from, at);
            if (next < 0) {
                break;
            }
            out.append(s, at, next).append(to);
            at = next + from.length();
        }
        return out.append(s, at, s.length()).toString();
    }

    private static long maxSplits(List<Object> args, Map<String, Object> named) {
        long max = args.size() > 1
                ? Numbers.integer(args.get(1))
                : named.containsKey("maxsplit") ? Numbers.integer(named.get("maxsplit")) : -1;
        return max < 0 ? Long.MAX_VALUE : max;
    }

    private static Object separator(List<Object> args, Map<String, Object> named) {
        Object separator = args.isEmpty() ? named.getOrDefault("sep", Values.NONE) : args.getFirst();
        if ("".equals(separator)) {
            throw new JinjaException("split with an empty separator");
        }
        return separator;
    }

    private static List<Object> split(RenderBudget budget, String s, List<Object> args, Map<String, Object> named) {
        long max = maxSplits(args, named);
        Object separator = separator(args, named);
        budget.text(s.length());
        List<Object> parts = new ArrayList<>();
        if (separator == Values.NONE) {
            splitAtBlanks(budget, s, max, parts);
            return parts;
        }
        String mark = Values.string(separator);
        int at = 0;
        for (int next = s.indexOf(mark); next >= 0 && parts.size() < max; next = s.indexOf(mark, at)) {
            add(budget, parts, s.substring(at, next));
            at = next + mark.length();
        }
        add(budget, parts, s.substring(at));
        return parts;
    }

    private static void splitAtBlanks(RenderBudget budget, String s, long max, List<Object> parts) {
        int at = blanks(s, 0, true);
        while (at < s.length()) {
            if (parts.size() == max) {
                add(budget, parts, s.substring(at));
                return;
            }
            int end = blanks(s, at, false);
            add(budget, parts, s.substring(at, end));
            at = blanks(s, end, true);
        }
    }

    /** The first index from {@code at} on where whitespace ends, or begins. */
    private static int blanks(String s, int at, boolean end) {
        int i = at;
        while (i < s.length() && isBlank(s.charAt(i)) == end) {
            i++;
        }
        return i;
    }

    private static List<Object> splitFromRight(
            RenderBudget budget, String s, List<Object> args, Map<String, Object> named) {
        long max = maxSplits(args, named);
        String mark = Values.string(separator(args, named));
        budget.text(s.length());
        List<Object> parts = new ArrayList<>();
        int end = s.length();
        while (parts.size() < max) {
            int next = s.lastIndexOf(mark, end - mark.length());
            if (next < 0 || end < mark.length()) {
                break;
            }
            add(budget, parts, s.substring(next + mark.length(), end));
            end = next;
        }
        add(budget, parts, s.substring(0, end));
        return new ArrayList<>(parts.reversed());
    }

    private static void add(RenderBudget budget, List<Object> parts, String part) {
        budget.elements(1);
        parts.add(part);
    }

    private static List<Object> lines(RenderBudget budget, String s) {
        budget.text(s.length());
        List<Object> lines = new ArrayList<>();
        int at = 0;
        for (int i = 0; i < s.length(); i++) {
            if (endsLine(s.charAt(i))) {
                add(budget, lines, s.substring(at, i));
                i += s.startsWith("\r\n", i) ? 1 : 0;
                at = i + 1;
            }
        }
        if (at < s.length()) {
            add(budget, lines, s.substring(at));
        }
        return lines;
    }

    /** Whether Python's {@code str.splitlines} splits here. */
    private static boolean endsLine(char c) {
        return c >= '\n' && c <= '\r' || c >= 0x1c && c <= 0x1e || c == 0x85 || c == 0x2028 || c == 0x2029;
    }

    private static Object find(RenderBudget budget, String s, String part) {
        budget.read(s.length());
        int at = s.indexOf(part);
        return at < 0 ? -1L : (long) s.codePointCount(0, at);
    }

    private static Object count(RenderBudget budget, String s, String part) {
        budget.read(s.length());
        if (part.isEmpty()) {
            return s.codePointCount(0, s.length()) + 1L;
        }
        long found = 0;
        for (int at = s.indexOf(part); at >= 0; at = s.indexOf(part, at + part.length())) {
            found++;
        }
        return found;
    }

    static String join(RenderBudget budget, String separator, List<?> items) {
        TextBuilder out = new TextBuilder(budget);
        boolean first = true;
        for (Object item : items) {
            out.append(first ? "" : separator);
            out.append(Values.text(budget, item));
            first = false;
        }
        return out.toString();
    }

    /** Python's {@code str.format} with plain fields only: {@code {}}, {@code {0}} and {@code {name}}. */
    private static String format(RenderBudget budget, String s, List<Object> args, Map<String, Object> named) {
        TextBuilder out = new TextBuilder(budget);
        int next = 0;
        int at = 0;
        for (int open = s.indexOf('{'); open >= 0; open = s.indexOf('{', at)) {
            int close = s.indexOf('}', open);
            if (close < 0) {
                break;
            }
            String field = s.substring(open + 1, close);
            Object value = field.isEmpty()
                    ? positional(args, next++)
                    : field.matches("[0-9]{1,3}") ? positional(args, Integer.parseInt(field)) : named.get(field);
            if (value == null) {
                throw new JinjaException("format has no value for '{" + field + "}'");
            }
            out.append(s, at, open).append(Values.text(budget, value));
            at = close + 1;
        }
        return out.append(s, at, s.length()).toString();
    }

    private static @Nullable Object positional(List<Object> args, int index) {
        return index < args.size() ? args.get(index) : null;
    }

    static String capitalize(String s) {
        return s.isEmpty()
                ? s
                : s.substring(0, 1).toUpperCase(Locale.ROOT) + s.substring(1).toLowerCase(Locale.ROOT);
    }

    static String title(String s) {
        StringBuilder out = new StringBuilder(s.length());
        boolean start = true;
        for (int i = 0; i < s.length(); i++) {
            char c = s.charAt(i);
            out.append(start ? Character.toUpperCase(c) : Character.toLowerCase(c));
            start = !Character.isLetter(c);
        }
        return out.toString();
    }
}
