package dev.tandem.grammar;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import tools.jackson.core.io.JsonStringEncoder;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.node.JsonNodeFactory;
import tools.jackson.databind.node.ObjectNode;

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

    /** Where JSON may have whitespace. */
    public enum Whitespace {
        /** Wherever JSON allows it. */
        ANY,
        /** One blank after each colon and comma, as Python writes JSON. */
        NONE
    }

    /** What stands between the markers of a tag. */
    public sealed interface Content {
        /** JSON of a schema that a client sent. */
        record Schema(JsonNode schema) implements Content {}

        /** JSON of a grammar of the syntax {@link Syntax#JSON_SCHEMA}. */
        record Json(GrammarSource source) implements Content {}

        /** Any text. */
        record Free() implements Content {}

        /**
         * A value of a schema in the notation of Gemma's calls.
         *
         * @param quote the special token around strings
         */
        record Gemma(JsonNode schema, String quote) implements Content {}
    }

    /**
     * Text between two markers, as in vLLM's structural tags.
     *
     * @param begin the text that begins the tag
     * @param content the text between
     * @param end the text that ends the tag
     */
    public record Tag(String begin, Content content, String end) {
        /** A tag with JSON of a schema. */
        public Tag(String begin, JsonNode schema, String end) {
            this(begin, new Content.Schema(schema), end);
        }
    }

    /**
     * Free text before what a grammar describes, as the reasoning of a model.
     *
     * @param begin the text that begins it, so that it may be missing; empty when it has begun already
     * @param end the text that ends it
     */
    public record Lead(String begin, String end) {}

    private static final String TEXT = "TEXT: /(.|\\n)*/\n";

    /** Options of llguidance in a schema. One of them makes it ignore keywords, so clients may not set them. */
    private static final String OPTIONS = "x-guidance";
    /** A divisor takes as many states; 9,973 compiles in 0.1 s, 99,991 in 1.3 s, 999,983 in more than a minute. */
    private static final int MAX_DIVISOR = 10_000;
    /** Keywords whose values are data, not schemas. */
    private static final Set<String> DATA = Set.of("const", "enum", "default", "examples");

    /**
     * JSON that matches a schema.
     *
     * @throws GrammarException when the schema is not an object, or exceeds what llguidance can compile
     */
    public static GrammarSource jsonSchema(JsonNode schema, Whitespace whitespace) {
        check(schema);
        return new GrammarSource(
                Syntax.JSON_SCHEMA,
                switch (whitespace) {
                    case ANY -> schema.toString();
                    case NONE -> {
                        ObjectNode compact = schema.deepCopy().asObject();
                        compact.putObject(OPTIONS).put("whitespace_flexible", false);
                        yield compact.toString();
                    }
                });
    }

    private static void check(JsonNode schema) {
        if (!schema.isObject()) {
            throw new GrammarException("the schema must be a JSON object");
        }
        if (schema.has(OPTIONS)) {
            throw new GrammarException("the schema has the keyword " + OPTIONS + "; leave it out");
        }
        checkDivisors(schema);
    }

    private static void checkDivisors(JsonNode schema) {
        if (schema.isArray()) {
            schema.forEach(GrammarSource::checkDivisors);
        }
        schema.propertyStream().forEach(entry -> {
            JsonNode value = entry.getValue();
            if (entry.getKey().equals("multipleOf") && value.isNumber() && divisor(value) > MAX_DIVISOR) {
                throw new GrammarException(
                        "multipleOf is " + value + "; its digits must make a number of at most " + MAX_DIVISOR);
            }
            if (!DATA.contains(entry.getKey())) {
                checkDivisors(value);
            }
        });
    }

    /** The digits without the zeros at the end, which cost little. */
    private static double divisor(JsonNode value) {
        return value.decimalValue().stripTrailingZeros().unscaledValue().doubleValue();
    }

    /** Any JSON object. */
    public static GrammarSource jsonObject(Whitespace whitespace) {
        return jsonSchema(JsonNodeFactory.instance.objectNode().put("type", "object"), whitespace);
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
     * How tags follow each other.
     *
     * <p>A separator of white space may also follow the last tag. Some tokens have both the last character of a tag and
     * a line break, and a model that ends its answer with one would otherwise have to write another tag.
     *
     * @param begin text before the first
     * @param separator text between two
     * @param end text after the last
     * @param several whether there may be more than one
     */
    public record Row(String begin, String separator, String end, boolean several) {}

    /**
     * Free text in which each trigger begins one of the tags that start with it.
     *
     * @param triggers of which each tag's begin starts with one
     * @throws GrammarException when a tag starts with none of the triggers, or a trigger begins no tag
     */
    public static GrammarSource structuralTags(List<Tag> tags, List<String> triggers) {
        return structuralTags(tags, triggers, Optional.empty(), Map.of());
    }

    /**
     * The same with special tokens.
     *
     * @param lead what precedes the text; only needed where its markers are special tokens, which are no free text
     * @param special ids of special tokens by their spelling: where tags and triggers have one, the token is meant
     * @throws GrammarException when a tag starts with none of the triggers, or a trigger begins no tag
     */
    public static GrammarSource structuralTags(
            List<Tag> tags, List<String> triggers, Optional<Lead> lead, Map<String, Integer> special) {
        List<String> unused = new ArrayList<>(triggers);
        List<String> alternatives = new ArrayList<>();
        StringBuilder rules = new StringBuilder();
        for (Tag tag : tags) {
            String trigger = triggers.stream()
                    .filter(tag.begin()::startsWith)
                    .findFirst()
                    .orElseThrow(() -> new GrammarException("the tag '" + tag.begin()
                            + "' starts with none of the triggers; add one that it starts with"));
            unused.remove(trigger);
            String rest = tag.begin().substring(trigger.length());
            alternatives.add("trigger" + triggers.indexOf(trigger) + literal(rest, special)
                    + content(tag, "value" + alternatives.size(), special, rules) + literal(tag.end(), special));
        }
        if (!unused.isEmpty()) {
            throw new GrammarException("the trigger '" + unused.getFirst() + "' begins no tag; leave it out");
        }
        StringBuilder grammar = new StringBuilder("start:" + before(lead, special) + " tag* TEXT\ntag: "
                + String.join("\n   | ", alternatives) + "\n" + rules + thought(lead, special));
        for (int i = 0; i < triggers.size(); i++) {
            grammar.append(until("trigger" + i, triggers.get(i), special));
        }
        return lark(grammar + TEXT);
    }

    /**
     * A row of tags and nothing else.
     *
     * @param lead what precedes them
     * @param special ids of special tokens by their spelling: where the row and its tags have one, the token is meant
     * @throws GrammarException when a schema is refused
     */
    public static GrammarSource tagList(List<Tag> tags, Row row, Optional<Lead> lead, Map<String, Integer> special) {
        return lark("start:" + before(lead, special) + row(tags, row, special) + thought(lead, special) + TEXT);
    }

    /**
     * JSON, or a row of tags and nothing else.
     *
     * @param json of the syntax {@link Syntax#JSON_SCHEMA}
     * @param special ids of special tokens by their spelling: where the row and its tags have one, the token is meant
     * @throws GrammarException when a schema is refused
     */
    public static GrammarSource jsonOrTagList(
            GrammarSource json, List<Tag> tags, Row row, Map<String, Integer> special) {
        return lark("start: %json " + json.text() + " | tags\ntags:" + row(tags, row, special));
    }

    /**
     * Free text, or a row of tags and nothing else. A brace begins a row, so free text does not begin with one.
     *
     * @param lead what precedes them
     * @param special ids of special tokens by their spelling: where the row and its tags have one, the token is meant
     * @throws GrammarException when a schema is refused
     */
    public static GrammarSource textOrTagList(
            List<Tag> tags, Row row, Optional<Lead> lead, Map<String, Integer> special) {
        // nor with what spells a marker
        String other = lead.isPresent() ? "" : "|<([^|](.|\\n)*)?";
        return lark("start:" + before(lead, special) + " (tags | other)\ntags:" + row(tags, row, special)
                + "other: /[\\s\\x1C-\\x1F]*([^{<\\s\\x1C-\\x1F](.|\\n)*" + other + ")?/\n" + thought(lead, special)
                + TEXT);
    }

    /**
     * Free text in which a trigger begins a row of tags.
     *
     * @param trigger with which the row's begin starts
     * @param lead what precedes the text; only needed where its markers are special tokens, which are no free text
     * @param special ids of special tokens by their spelling: where the row and its tags have one, the token is meant
     * @throws GrammarException when a schema is refused
     */
    public static GrammarSource textWithTagLists(
            List<Tag> tags, Row row, String trigger, Optional<Lead> lead, Map<String, Integer> special) {
        Row rest = new Row(row.begin().substring(trigger.length()), row.separator(), row.end(), row.several());
        return lark("start:" + before(lead, special) + " row* TEXT\nrow: trigger" + row(tags, rest, special)
                + until("trigger", trigger, special) + thought(lead, special) + TEXT);
    }

    /** The end of the rule for a row of tags, and the rule for one of them. */
    private static String row(List<Tag> tags, Row row, Map<String, Integer> special) {
        StringBuilder rules = new StringBuilder();
        List<String> alternatives = new ArrayList<>();
        for (Tag tag : tags) {
            alternatives.add(literal(tag.begin(), special)
                    + content(tag, "value" + alternatives.size(), special, rules)
                    + literal(tag.end(), special));
        }
        String separator = literal(row.separator(), special);
        String more = row.several() ? " (" + separator.strip() + " tag)*" : "";
        String last = !separator.isEmpty() && row.separator().isBlank() ? separator + "?" : "";
        return literal(row.begin(), special) + " tag" + more + last + literal(row.end(), special) + "\ntag:"
                + String.join(" |", alternatives) + "\n" + rules;
    }

    /**
     * The expression for a tag's content.
     *
     * @param name that begins the names of its rules
     * @param rules that it needs are added to these
     */
    private static String content(Tag tag, String name, Map<String, Integer> special, StringBuilder rules) {
        return switch (tag.content()) {
            case Content.Schema json -> {
                check(json.schema());
                yield " %json " + json.schema();
            }
            case Content.Json json -> " %json " + json.source().text();
            case Content.Free free -> " TEXT";
            case Content.Gemma gemma -> {
                Integer token = special.get(gemma.quote());
                if (token == null) {
                    throw new GrammarException("the model's vocabulary has no special token " + gemma.quote());
                }
                GemmaSchema schema = new GemmaSchema(name, gemma.schema(), gemma.quote(), token);
                String start = " " + schema.start();
                rules.append(schema.rules());
                yield start;
            }
        };
    }

    private static String before(Optional<Lead> lead, Map<String, Integer> special) {
        return lead.map(text -> text.begin().isEmpty()
                        ? " thought"
                        : " (" + literal(text.begin(), special).strip() + " thought)?")
                .orElse("");
    }

    private static String thought(Optional<Lead> lead, Map<String, Integer> special) {
        return lead.map(text ->
                        "thought: thinking SPACE\n" + until("thinking", text.end(), special) + "SPACE: /[ \\n]*/\n")
                .orElse("");
    }

    /** A rule for any text up to its first end. A special token is no text, so it needs no lazy search. */
    private static String until(String rule, String end, Map<String, Integer> special) {
        boolean beginsSpecial = special.keySet().stream().anyMatch(end::startsWith);
        return rule + (beginsSpecial ? "" : "[lazy]") + ": TEXT" + literal(end, special) + "\n";
    }

    /** A blank and the text, in which spellings of special tokens stand for the tokens. */
    private static String literal(String text, Map<String, Integer> special) {
        StringBuilder literal = new StringBuilder();
        int start = 0;
        for (int i = 0; i < text.length(); ) {
            String rest = text.substring(i);
            Optional<String> token =
                    special.keySet().stream().filter(rest::startsWith).max(Comparator.comparingInt(String::length));
            if (token.isEmpty()) {
                i++;
                continue;
            }
            literal.append(plain(text.substring(start, i)))
                    .append(" <[")
                    .append(special.get(token.get()))
                    .append("]>");
            i += token.get().length();
            start = i;
        }
        return literal.append(plain(text.substring(start))).toString();
    }

    private static String plain(String text) {
        return text.isEmpty() ? "" : " " + quoted(text);
    }

    /** Lark's strings are JSON's, but without any control character. */
    static String quoted(String text) {
        StringBuilder quoted = new StringBuilder("\"");
        for (char c : JsonStringEncoder.getInstance().quoteAsCharArray(text)) {
            quoted.append(Character.isISOControl(c) ? String.format("\\u%04x", (int) c) : String.valueOf(c));
        }
        return quoted.append('"').toString();
    }
}
