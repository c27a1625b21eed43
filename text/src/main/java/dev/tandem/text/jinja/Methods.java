package dev.tandem.text.jinja;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;

/** Methods of Python's str, list and dict that templates call. */
final class Methods {
    private Methods() {}

    static Optional<Values.Callable> find(Object target, String name) {
        return switch (target) {
            case String s -> ofString(s, name);
            case List<?> list -> ofList(list, name);
            case Map<?, ?> map -> ofMap(map, name);
            default -> Optional.empty();
        };
    }

    private static Optional<Values.Callable> ofString(String s, String name) {
        return Optional.ofNullable(switch (name) {
            case "strip" -> (args, named) -> strip(s, characters(args), true, true);
            case "lstrip" -> (args, named) -> strip(s, characters(args), true, false);
            case "rstrip" -> (args, named) -> strip(s, characters(args), false, true);
            case "upper" -> (args, named) -> s.toUpperCase(Locale.ROOT);
            case "lower" -> (args, named) -> s.toLowerCase(Locale.ROOT);
            case "title" -> (args, named) -> title(s);
            case "capitalize" -> (args, named) -> capitalize(s);
            case "startswith" -> (args, named) -> anyOf(args.getFirst()).stream().anyMatch(s::startsWith);
            case "endswith" -> (args, named) -> anyOf(args.getFirst()).stream().anyMatch(s::endsWith);
            case "replace" -> (args, named) -> replace(s, (String) args.get(0), (String) args.get(1), args.size() > 2 ? Values.integer(args.get(2)) : -1);
            case "split" -> (args, named) -> split(s, args, named);
            case "splitlines" -> (args, named) -> new ArrayList<Object>(s.lines().toList());
            case "find" -> (args, named) -> (long) s.indexOf((String) args.getFirst());
            case "count" -> (args, named) -> (long) (split(s, args, Map.of()).size() - 1);
            case "join" -> (args, named) -> String.join(s, Values.iterate(args.getFirst()).stream().map(Values::text).toList());
            case "format" -> (args, named) -> format(s, args, named);
            case "isdigit" -> (args, named) -> !s.isEmpty() && s.chars().allMatch(Character::isDigit);
            case "isspace" -> (args, named) -> !s.isEmpty() && s.isBlank();
            default -> null;
        });
    }

    private static Optional<Values.Callable> ofList(List<?> list, String name) {
        @SuppressWarnings("unchecked")
        List<Object> items = (List<Object>) list;
        return Optional.ofNullable(switch (name) {
            case "append" -> (args, named) -> {
                items.add(args.getFirst());
                return Values.NONE;
            };
            case "pop" -> (args, named) ->
                items.remove(args.isEmpty() ? items.size() - 1 : (int) Values.integer(args.getFirst()));
            case "index" -> (args, named) -> (long) items.indexOf(args.getFirst());
            default -> null;
        });
    }

    private static Optional<Values.Callable> ofMap(Map<?, ?> map, String name) {
        return Optional.ofNullable(switch (name) {
            case "items" -> (args, named) -> items(map);
            case "keys" -> (args, named) -> new ArrayList<Object>(map.keySet());
            case "values" -> (args, named) -> new ArrayList<Object>(map.values());
            case "get" -> (args, named) -> {
                Object value = map.get(args.getFirst());
                return value != null ? value : args.size() > 1 ? args.get(1) : Values.NONE;
            };
            default -> null;
        });
    }

    static List<Object> items(Map<?, ?> map) {
        List<Object> pairs = new ArrayList<>();
        map.forEach((key, value) -> pairs.add(Values.Tuple.of(key, value)));
        return pairs;
    }

    private static List<String> anyOf(Object argument) {
        return argument instanceof List<?> list
                ? list.stream().map(Values::text).toList()
                : List.of(Values.text(argument));
    }

    private static String characters(List<Object> args) {
        return args.isEmpty() || args.getFirst() == Values.NONE ? "" : (String) args.getFirst();
    }

    static String strip(String s, String characters, boolean left, boolean right) {
        int from = 0;
        int to = s.length();
        while (left && from < to && strips(s.charAt(from), characters)) {
            from++;
        }
        while (right && to > from && strips(s.charAt(to - 1), characters)) {
            to--;
        }
        return s.substring(from, to);
    }

    private static boolean strips(char c, String characters) {
        return characters.isEmpty() ? Character.isWhitespace(c) || c == '\u00a0' : characters.indexOf(c) >= 0;
    }

    static String replace(String s, String from, String to, long most) {
        StringBuilder out = new StringBuilder();
        int at = 0;
        for (long done = 0; most < 0 || done < most; done++) {
            int next = s.indexOf(from, at);
            if (next < 0 || from.isEmpty()) {
                break;
            }
            out.append(s, at, next).append(to);
            at = next + from.length();
        }
        return out.append(s.substring(at)).toString();
    }

    private static List<Object> split(String s, List<Object> args, Map<String, Object> named) {
        long most = args.size() > 1
                ? Values.integer(args.get(1))
                : named.containsKey("maxsplit") ? Values.integer(named.get("maxsplit")) : -1;
        List<Object> parts = new ArrayList<>();
        if (args.isEmpty() || args.getFirst() == Values.NONE) {
            for (String part : s.strip().split("\\s+")) {
                if (!part.isEmpty()) {
                    parts.add(part);
                }
            }
            return parts;
        }
        String separator = (String) args.getFirst();
        int at = 0;
        for (int next = s.indexOf(separator); next >= 0 && (most < 0 || parts.size() < most); next = s.indexOf(separator, at)) {
            parts.add(s.substring(at, next));
            at = next + separator.length();
        }
        parts.add(s.substring(at));
        return parts;
    }

    /** Plain fields only: {@code {}}, {@code {0}} and {@code {name}}. */
    private static String format(String s, List<Object> args, Map<String, Object> named) {
        StringBuilder out = new StringBuilder();
        int next = 0;
        int at = 0;
        for (int open = s.indexOf('{'); open >= 0; open = s.indexOf('{', at)) {
            int close = s.indexOf('}', open);
            if (close < 0) {
                break;
            }
            String field = s.substring(open + 1, close);
            Object value = field.isEmpty()
                    ? args.get(next++)
                    : field.chars().allMatch(Character::isDigit) ? args.get(Integer.parseInt(field)) : named.get(field);
            if (value == null) {
                throw new JinjaException("format has no value for '{" + field + "}'");
            }
            out.append(s, at, open).append(Values.text(value));
            at = close + 1;
        }
        return out.append(s.substring(at)).toString();
    }

    static String capitalize(String s) {
        return s.isEmpty() ? s : s.substring(0, 1).toUpperCase(Locale.ROOT) + s.substring(1).toLowerCase(Locale.ROOT);
    }

    static String title(String s) {
        StringBuilder out = new StringBuilder();
        boolean start = true;
        for (char c : s.toCharArray()) {
            out.append(start ? Character.toUpperCase(c) : Character.toLowerCase(c));
            start = !Character.isLetter(c);
        }
        return out.toString();
    }
}
