package dev.tandem.grammar;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.regex.Pattern;
import tools.jackson.core.JsonPointer;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.node.JsonNodeFactory;
import tools.jackson.databind.node.MissingNode;
import tools.jackson.databind.node.ObjectNode;

/**
 * Lark rules for values of a JSON schema in the notation of Gemma's calls: {@code {city:<|"|>Bern<|"|>,days:[1,2]}}.
 *
 * <p>Keys are bare and come in the order in which Gemma's templates sort them. Strings stand between markers, and there
 * is no white space. An object with properties has no others, whatever {@code additionalProperties} says.
 *
 * <p>Owned by: one thread.
 */
final class GemmaSchema {
    private static final Set<String> ANNOTATIONS = Set.of(
            "title",
            "description",
            "default",
            "examples",
            "deprecated",
            "readOnly",
            "writeOnly",
            "$comment",
            "$schema",
            "$id",
            "$defs",
            "definitions");
    private static final List<String> ALTERNATIVES = List.of("$ref", "const", "enum", "anyOf");
    private static final String TYPE = "type";
    private static final Set<String> LIMITS_OF_NUMBERS =
            Set.of("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf");
    /** Keywords by the type that they imply. */
    private static final Map<String, Set<String>> BY_TYPE = Map.of(
            "object", Set.of("properties", "required", "additionalProperties"),
            "array", Set.of("items", "minItems", "maxItems"),
            "string", Set.of("minLength", "maxLength"),
            "number", LIMITS_OF_NUMBERS);
    /** Keys that the notation can have; others would read as its punctuation. */
    private static final Pattern KEY = Pattern.compile("[^\\s:,{}\\[\\]\"<](.*[^\\s:,{}\\[\\]\"<])?");

    private static final Pattern PUNCTUATION = Pattern.compile("[:,{}\\[\\]\"<]");

    private final String prefix;
    private final JsonNode root;
    private final String quote;
    private final String quoteToken;
    private final StringBuilder rules = new StringBuilder();
    private final Map<String, String> references = new HashMap<>();
    private Optional<String> any = Optional.empty();
    private int count;

    /**
     * @param prefix of the names of the rules
     * @param root a schema
     * @param quote the marker around strings
     * @param token the special token that it is
     */
    GemmaSchema(String prefix, JsonNode root, String quote, int token) {
        this.prefix = prefix;
        this.root = root;
        this.quote = quote;
        this.quoteToken = "<[" + token + "]>";
    }

    /**
     * The name of the rule for the schema's values.
     *
     * @throws GrammarException when the schema has a keyword that is not supported, or allows nothing
     */
    String start() {
        return value(root);
    }

    /** The rules, once {@link #start} has made them. */
    String rules() {
        return rules.toString();
    }

    private String name() {
        return prefix + "_" + count++;
    }

    private String define(String name, String expression) {
        rules.append(name).append(": ").append(expression).append('\n');
        return name;
    }

    private String value(JsonNode schema) {
        if (schema.isBoolean() && schema.asBoolean()) {
            return any();
        }
        if (!schema.isObject()) {
            throw new GrammarException("a schema is " + schema + "; it must be an object or true");
        }
        String name = name();
        return define(name, expression(schema));
    }

    private String expression(JsonNode schema) {
        Set<String> keywords = new LinkedHashSet<>(schema.propertyNames());
        keywords.removeAll(ANNOTATIONS);
        for (String keyword : keywords) {
            boolean known = keyword.equals(TYPE)
                    || ALTERNATIVES.contains(keyword)
                    || BY_TYPE.values().stream().anyMatch(all -> all.contains(keyword));
            if (!known) {
                throw new GrammarException("the keyword " + keyword
                        + " is not supported in the calls of this model's format; leave it out");
            }
        }
        for (String keyword : ALTERNATIVES) {
            if (keywords.contains(keyword)) {
                boolean isData = keyword.equals("const") || keyword.equals("enum");
                keywords.stream()
                        .filter(other -> !other.equals(keyword) && !(isData && other.equals(TYPE)))
                        .findFirst()
                        .ifPresent(other -> {
                            throw new GrammarException("the keyword " + other + " is not supported beside " + keyword
                                    + " in the calls of this model's format; leave one of them out");
                        });
                return alternatives(keyword, schema);
            }
        }
        return keywords.isEmpty()
                ? any()
                : types(schema, keywords).stream()
                        .map(type -> ofType(type, schema))
                        .reduce((a, b) -> a + " | " + b)
                        .orElseThrow(() -> new GrammarException("the schema " + schema + " allows no type"));
    }

    private String alternatives(String keyword, JsonNode schema) {
        JsonNode value = schema.path(keyword);
        if (keyword.equals("$ref")) {
            return reference(value.asString(""));
        }
        List<String> alternatives = new ArrayList<>();
        switch (keyword) {
            case "anyOf" -> value.forEach(one -> alternatives.add(value(one)));
            case "enum" ->
                value.values().stream().filter(one -> hasType(one, schema)).forEach(one -> alternatives.add(data(one)));
            default -> alternatives.add(data(value));
        }
        if (alternatives.isEmpty()) {
            throw new GrammarException("the keyword " + keyword + " allows no value");
        }
        return String.join(" | ", alternatives);
    }

    private static boolean hasType(JsonNode value, JsonNode schema) {
        return !schema.has(TYPE)
                || types(schema, Set.of()).stream().anyMatch(type -> switch (type) {
                    case "object" -> value.isObject();
                    case "array" -> value.isArray();
                    case "string" -> value.isString();
                    case "integer" -> value.isIntegralNumber();
                    case "number" -> value.isNumber();
                    case "boolean" -> value.isBoolean();
                    case "null" -> value.isNull();
                    default -> false;
                });
    }

    private String reference(String reference) {
        String known = references.get(reference);
        if (known != null) {
            return known;
        }
        JsonNode target = reference.equals("#") || reference.startsWith("#/")
                ? root.at(JsonPointer.compile(reference.substring(1)))
                : MissingNode.getInstance();
        if (target.isMissingNode()) {
            throw new GrammarException("the reference '" + reference + "' leads to no part of the schema");
        }
        String name = name();
        references.put(reference, name);
        return define(name, target.isBoolean() ? value(target) : expression(target));
    }

    /** The types that are named, or else the one that the keywords imply. */
    private static List<String> types(JsonNode schema, Set<String> keywords) {
        JsonNode type = schema.path(TYPE);
        if (type.isMissingNode()) {
            return BY_TYPE.entrySet().stream()
                    .filter(entry -> entry.getValue().stream().anyMatch(keywords::contains))
                    .map(Map.Entry::getKey)
                    .sorted()
                    .toList();
        }
        return type.isArray()
                ? type.values().stream().map(one -> one.asString("")).toList()
                : List.of(type.asString(""));
    }

    private String ofType(String type, JsonNode schema) {
        return switch (type) {
            case "object" -> object(schema);
            case "array" -> array(schema);
            case "string" -> text("/(.|\\n)" + times(schema, "minLength", "maxLength", 0) + "/");
            case "integer", "number" -> number(type, schema);
            case "boolean" -> "\"true\" | \"false\"";
            case "null" -> "\"null\"";
            default -> throw new GrammarException("the type '" + type + "' is not one of JSON schema");
        };
    }

    private String text(String content) {
        return quoteToken + " " + content + " " + quoteToken;
    }

    /** Numbers are JSON's. */
    private static String number(String type, JsonNode schema) {
        ObjectNode number = JsonNodeFactory.instance.objectNode().put(TYPE, type);
        LIMITS_OF_NUMBERS.stream()
                .sorted()
                .filter(schema::has)
                .forEach(keyword -> number.set(keyword, schema.path(keyword)));
        return "%json "
                + GrammarSource.jsonSchema(number, GrammarSource.Whitespace.ANY).text();
    }

    /** The repetition between two limits, less what stands before it. */
    private static String times(JsonNode schema, String least, String greatest, int before) {
        int min = limit(schema, least, 0);
        int max = limit(schema, greatest, Integer.MAX_VALUE);
        if (min > max) {
            throw new GrammarException(least + " is " + min + ", more than " + greatest + ", which is " + max);
        }
        return "{" + Math.max(0, min - before) + "," + (max == Integer.MAX_VALUE ? "" : max - before) + "}";
    }

    private static int limit(JsonNode schema, String keyword, int otherwise) {
        JsonNode value = schema.path(keyword);
        if (value.isMissingNode()) {
            return otherwise;
        }
        if (!value.isInt() || value.asInt() < 0) {
            throw new GrammarException(keyword + " is " + value + "; it must be a whole number, 0 or more");
        }
        return value.asInt();
    }

    private String array(JsonNode schema) {
        if (limit(schema, "maxItems", 1) == 0) {
            return "\"[]\"";
        }
        String item = schema.has("items") ? value(schema.path("items")) : any();
        String items = item + " (\",\" " + item + ")" + times(schema, "minItems", "maxItems", 1);
        return "\"[\" " + (limit(schema, "minItems", 0) == 0 ? "(" + items + ")?" : items) + " \"]\"";
    }

    private String object(JsonNode schema) {
        JsonNode further = schema.path("additionalProperties");
        NavigableMap<String, JsonNode> properties =
                new TreeMap<>(Comparator.comparing((String key) -> key.toLowerCase(Locale.ROOT))
                        .thenComparing(Comparator.naturalOrder()));
        schema.path("properties").propertyStream().forEach(entry -> properties.put(entry.getKey(), entry.getValue()));
        Set<String> required = new LinkedHashSet<>();
        schema.path("required").forEach(key -> required.add(key.asString("")));
        boolean closed = further.isBoolean() && !further.asBoolean();
        for (String key : required) {
            if (closed && !properties.containsKey(key)) {
                throw new GrammarException("the property '" + key + "' is required and not allowed");
            }
            properties.putIfAbsent(key, further.isObject() ? further : JsonNodeFactory.instance.booleanNode(true));
        }
        if (!properties.isEmpty()) {
            return "\"{\" " + properties(properties, required) + " \"}\"";
        }
        return closed ? "\"{}\"" : free(further.isObject() ? value(further) : any());
    }

    private static String free(String value) {
        String property = "/[A-Za-z_][A-Za-z0-9_]*/ \":\" " + value;
        return "\"{\" (" + property + " (\",\" " + property + ")*)? \"}\"";
    }

    /** A rule for each property and those after it, once with a comma before it and once without, from the last. */
    private String properties(NavigableMap<String, JsonNode> properties, Set<String> required) {
        String first = "";
        String next = "";
        for (Map.Entry<String, JsonNode> property : properties.descendingMap().entrySet()) {
            String key = property.getKey();
            if (!KEY.matcher(key).matches() || PUNCTUATION.matcher(key).find()) {
                throw new GrammarException("the property '" + key
                        + "' has a character that separates values in the calls of this model's format; rename it");
            }
            String pair = GrammarSource.quoted(key + ":") + " " + value(property.getValue()) + " " + next;
            boolean optional = !required.contains(key);
            String firstHere = define(name(), optional(pair, first, optional));
            next = define(name(), optional("\",\" " + pair, next, optional));
            first = firstHere;
        }
        return first;
    }

    private static String optional(String pair, String without, boolean isOptional) {
        if (!isOptional) {
            return pair;
        }
        return without.isEmpty() ? "(" + pair + ")?" : pair + " | " + without;
    }

    /** A value that is known. */
    private String data(JsonNode value) {
        if (value.isString()) {
            if (value.asString().contains(quote)) {
                throw new GrammarException("the text '" + value.asString() + "' has the marker " + quote);
            }
            return text(value.asString().isEmpty() ? "" : GrammarSource.quoted(value.asString()));
        }
        if (value.isArray()) {
            List<String> items = value.values().stream().map(this::data).toList();
            return "\"[\" " + String.join(" \",\" ", items) + " \"]\"";
        }
        if (value.isObject()) {
            ObjectNode schema = JsonNodeFactory.instance.objectNode();
            ObjectNode properties = schema.putObject("properties");
            value.propertyStream()
                    .forEach(entry -> properties.putObject(entry.getKey()).set("const", entry.getValue()));
            schema.set("required", JsonNodeFactory.instance.arrayNode());
            value.propertyNames().forEach(key -> schema.withArray("required").add(key));
            return object(schema.put("additionalProperties", false));
        }
        return GrammarSource.quoted(value.toString());
    }

    /** Any value. */
    private String any() {
        if (any.isEmpty()) {
            String name = name();
            any = Optional.of(name);
            define(
                    name,
                    String.join(
                            " | ",
                            text("/(.|\\n)*/"),
                            number("number", JsonNodeFactory.instance.objectNode()),
                            "\"true\" | \"false\" | \"null\"",
                            "\"[\" (" + name + " (\",\" " + name + ")*)? \"]\"",
                            free(name)));
        }
        return any.get();
    }
}
