package dev.tandem.text.jinja;

import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/** Writes values as Python's {@code json.dumps} does, with the parameters of {@code tojson} in transformers. */
final class JsonText {
    private static final List<String> PARAMETERS = List.of("ensure_ascii", "indent", "separators", "sort_keys");

    private final RenderBudget budget;
    private final TextBuilder out;
    private final boolean ascii;
    private final Optional<String> indent;
    private final String itemSeparator;
    private final String keySeparator;
    private final boolean sorted;

    private JsonText(RenderBudget budget, boolean ascii, Optional<String> indent, Object separators, boolean sorted) {
        this.budget = budget;
        this.out = new TextBuilder(budget);
        this.ascii = ascii;
        this.indent = indent;
        this.sorted = sorted;
        if (separators == Values.NONE) {
            itemSeparator = indent.isPresent() ? "," : ", ";
            keySeparator = ": ";
        } else if (separators instanceof List<?> pair && pair.size() == 2) {
            itemSeparator = Values.string(pair.get(0));
            keySeparator = Values.string(pair.get(1));
        } else {
            throw new JinjaException("tojson: separators must be two strings, not " + Values.typeName(separators));
        }
    }

    static String of(RenderBudget budget, Object value, List<Object> args, Map<String, Object> named) {
        if (args.size() > PARAMETERS.size() || !Set.copyOf(PARAMETERS).containsAll(named.keySet())) {
            throw new JinjaException(
                    "tojson takes " + PARAMETERS + ", not " + args.size() + " arguments and " + named.keySet());
        }
        Object[] chosen = {false, Values.NONE, Values.NONE, false};
        for (int i = 0; i < chosen.length; i++) {
            chosen[i] = i < args.size() ? args.get(i) : named.getOrDefault(PARAMETERS.get(i), chosen[i]);
        }
        JsonText json =
                new JsonText(budget, Values.truthy(chosen[0]), indent(chosen[1]), chosen[2], Values.truthy(chosen[3]));
        json.write(value, 0);
        return json.out.toString();
    }

    private static Optional<String> indent(Object indent) {
        if (indent == Values.NONE) {
            return Optional.empty();
        }
        if (indent instanceof String s) {
            return Optional.of(s);
        }
        long blanks = Math.max(0, Numbers.integer(indent));
        if (blanks > RenderBudget.MAX_TEXT) {
            throw new JinjaException("tojson: indent is " + blanks + "; the limit is " + RenderBudget.MAX_TEXT);
        }
        return Optional.of(" ".repeat((int) blanks));
    }

    /** Uses one stack frame per level of nesting, because a thread's stack is small. */
    private void write(Object value, int level) {
        RenderBudget.nested(level);
        budget.steps(1);
        switch (value) {
            case Boolean b -> out.append(b ? "true" : "false");
            case String s -> quote(s);
            case Double d -> out.append(real(d));
            case List<?> list -> {
                out.append('[');
                for (int i = 0; i < list.size(); i++) {
                    separate(i == 0, level + 1);
                    write(list.get(i), level + 1);
                }
                close(list.isEmpty(), level, ']');
            }
            case Map<?, ?> map -> {
                out.append('{');
                boolean first = true;
                for (Map.Entry<?, ?> entry : entries(map)) {
                    separate(first, level + 1);
                    first = false;
                    quote(key(entry.getKey()));
                    out.append(keySeparator);
                    write(entry.getValue(), level + 1);
                }
                close(first, level, '}');
            }
            case Values.Undefined u -> throw new JinjaException("tojson of the " + Values.typeName(u));
            case Values.Callable c -> throw new JinjaException("tojson of a function");
            default -> out.append(value == Values.NONE ? "null" : value.toString());
        }
    }

    private List<? extends Map.Entry<?, ?>> entries(Map<?, ?> map) {
        budget.elements(map.size());
        List<? extends Map.Entry<?, ?>> entries = List.copyOf(map.entrySet());
        return sorted
                ? entries.stream()
                        .sorted((a, b) -> Values.compare(budget, a.getKey(), b.getKey()))
                        .toList()
                : entries;
    }

    private static String key(Object key) {
        return switch (key) {
            case String s -> s;
            case Boolean b -> b ? "true" : "false";
            case Double d -> real(d);
            default -> key == Values.NONE ? "null" : key.toString();
        };
    }

    private static String real(double value) {
        return Double.isNaN(value)
                ? "NaN"
                : Double.isInfinite(value) ? value > 0 ? "Infinity" : "-Infinity" : Values.real(value);
    }

    private void separate(boolean first, int level) {
        out.append(first ? "" : itemSeparator);
        newLine(level);
    }

    private void close(boolean empty, int level, char mark) {
        if (!empty) {
            newLine(level);
        }
        out.append(mark);
    }

    private void newLine(int level) {
        if (indent.isPresent()) {
            out.append('\n').repeat(indent.get(), level);
        }
    }

    private void quote(String s) {
        out.append('"');
        int written = 0;
        for (int i = 0; i < s.length(); i++) {
            char c = s.charAt(i);
            String escape = switch (c) {
                case '"' -> "\\\"";
                case '\\' -> "\\\\";
                case '\n' -> "\\n";
                case '\r' -> "\\r";
                case '\t' -> "\\t";
                case '\b' -> "\\b";
                case '\f' -> "\\f";
                default -> c < ' ' || ascii && c > '~' ? String.format("\\u%04x", (int) c) : "";
            };
            if (!escape.isEmpty()) {
                out.append(s, written, i).append(escape);
                written = i + 1;
            }
        }
        out.append(s, written, s.length()).append('"');
    }
}
