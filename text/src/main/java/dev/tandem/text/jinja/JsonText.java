package dev.tandem.text.jinja;

import java.util.Iterator;
import java.util.List;
import java.util.Map;

/** Python's {@code json.dumps(…, ensure_ascii=False)} of template values. */
final class JsonText {
    private final StringBuilder out = new StringBuilder();
    private final int indent;

    private JsonText(int indent) {
        this.indent = indent;
    }

    /** @param indent blanks a level, negative for one line */
    static String of(Object value, int indent) {
        JsonText json = new JsonText(indent);
        json.write(value, 0);
        return json.out.toString();
    }

    private void write(Object value, int level) {
        switch (value) {
            case Boolean b -> out.append(b);
            case String s -> quote(s);
            case Double d -> out.append(Values.real(d));
            case List<?> list -> writeAll('[', ']', list.iterator(), level, item -> write(item, level + 1));
            case Map<?, ?> map -> writeAll('{', '}', map.entrySet().iterator(), level, entry -> {
                quote(Values.text(entry.getKey()));
                out.append(": ");
                write(entry.getValue(), level + 1);
            });
            case Values.Undefined u -> throw new JinjaException("tojson of the " + Values.typeName(u));
            default -> out.append(value == Values.NONE ? "null" : value.toString());
        }
    }

    private interface Writer<T> {
        void write(T item);
    }

    private <T> void writeAll(char open, char close, Iterator<T> items, int level, Writer<T> writer) {
        out.append(open);
        if (!items.hasNext()) {
            out.append(close);
            return;
        }
        while (items.hasNext()) {
            newLine(level + 1);
            writer.write(items.next());
            if (items.hasNext()) {
                out.append(indent < 0 ? ", " : ",");
            }
        }
        newLine(level);
        out.append(close);
    }

    private void newLine(int level) {
        if (indent >= 0) {
            out.append('\n').append(" ".repeat(indent * level));
        }
    }

    private void quote(String s) {
        out.append('"');
        for (int i = 0; i < s.length(); i++) {
            char c = s.charAt(i);
            switch (c) {
                case '"' -> out.append("\\\"");
                case '\\' -> out.append("\\\\");
                case '\n' -> out.append("\\n");
                case '\r' -> out.append("\\r");
                case '\t' -> out.append("\\t");
                case '\b' -> out.append("\\b");
                case '\f' -> out.append("\\f");
                default -> {
                    if (c < ' ') {
                        out.append(String.format("\\u%04x", (int) c));
                    } else {
                        out.append(c);
                    }
                }
            }
        }
        out.append('"');
    }
}
