package dev.tandem.grammar;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import tools.jackson.core.io.JsonStringEncoder;

/**
 * A grammar before it is compiled.
 *
 * @param syntax of the text
 * @param text the JSON schema, regular expression or Lark grammar
 */
public record GrammarSource(Syntax syntax, String text) {
    /** What the text is written in; the names are llguidance's. */
    public enum Syntax {
        JSON_SCHEMA("json_schema"),
        REGEX("regex"),
        LARK("lark");

        final String type;

        Syntax(String type) {
            this.type = type;
        }
    }

    /**
     * Text between two markers that must match a schema, as in vLLM's structural tags.
     *
     * @param begin the text that begins the tag
     * @param schema JSON schema of the text between
     * @param end the text that ends the tag
     */
    public record Tag(String begin, String schema, String end) {}

    /** JSON that matches a schema. */
    public static GrammarSource jsonSchema(String schema) {
        return new GrammarSource(Syntax.JSON_SCHEMA, schema);
    }

    /** Any JSON object. */
    public static GrammarSource jsonObject() {
        return jsonSchema("{\"type\":\"object\"}");
    }

    /** Text that matches a regular expression from its start to its end. */
    public static GrammarSource regex(String pattern) {
        return new GrammarSource(Syntax.REGEX, pattern);
    }

    /** Text that matches the rule {@code start} of a grammar in llguidance's variant of Lark. */
    public static GrammarSource lark(String grammar) {
        return new GrammarSource(Syntax.LARK, grammar);
    }

    /** One of the texts. */
    public static GrammarSource choice(List<String> texts) {
        return lark("start: "
                + String.join(" | ", texts.stream().map(GrammarSource::quoted).toList()) + "\n");
    }

    /**
     * Free text in which each trigger begins one of the tags that start with it.
     *
     * @param triggers of which each tag's begin starts with one
     * @throws GrammarException when a tag starts with none of the triggers
     */
    public static GrammarSource structuralTags(List<Tag> tags, List<String> triggers) {
        Map<String, StringBuilder> alternatives = new LinkedHashMap<>();
        triggers.forEach(trigger -> alternatives.put(trigger, new StringBuilder()));
        for (Tag tag : tags) {
            String trigger = triggers.stream()
                    .filter(tag.begin()::startsWith)
                    .findFirst()
                    .orElseThrow(() -> new GrammarException("the tag '" + tag.begin()
                            + "' starts with none of the triggers; add one that it starts with"));
            StringBuilder rule = alternatives.get(trigger);
            String rest = tag.begin().substring(trigger.length());
            rule.append(rule.isEmpty() ? "(" : " | (");
            rule.append(rest.isEmpty() ? "" : quoted(rest) + " ");
            rule.append("%json ")
                    .append(tag.schema())
                    .append(' ')
                    .append(quoted(tag.end()))
                    .append(')');
        }
        StringBuilder start = new StringBuilder("start: (");
        StringBuilder rules = new StringBuilder();
        int index = 0;
        for (Map.Entry<String, StringBuilder> entry : alternatives.entrySet()) {
            start.append(index == 0 ? "" : " | ").append("tag").append(index);
            rules.append("tag" + index + ": trigger" + index + " (" + entry.getValue() + ")\n");
            rules.append("trigger" + index + "[lazy]: TEXT " + quoted(entry.getKey()) + "\n");
            index++;
        }
        return lark(start + ")* TEXT\n" + rules + "TEXT: /(.|\\n)*/\n");
    }

    private static String quoted(String text) {
        return '"' + new String(JsonStringEncoder.getInstance().quoteAsCharArray(text)) + '"';
    }
}
