package dev.tandem.library;

/** What the text of an answer must be. */
public sealed interface ResponseFormat {
    /** Any text. */
    record Text() implements ResponseFormat {}

    /** A JSON object. */
    record JsonObject() implements ResponseFormat {}

    /**
     * JSON of a schema.
     *
     * @param name of the schema
     * @param schema as JSON
     */
    record JsonSchema(String name, String schema) implements ResponseFormat {}
}
