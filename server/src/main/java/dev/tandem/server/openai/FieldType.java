package dev.tandem.server.openai;

import tools.jackson.databind.ObjectMapper;
import tools.jackson.databind.node.ObjectNode;

/** The JSON type of a request field: its reader requires it, and the API's description shows it. */
enum FieldType {
    /** Several types; the field's reader decides. */
    ANY(""),
    BOOLEAN("boolean"),
    INTEGER("integer"),
    NUMBER("number"),
    STRING("string"),
    LIST("array"),
    OBJECT("object");

    private static final ObjectMapper JSON = new ObjectMapper();

    private final String json;

    FieldType(String json) {
        this.json = json;
    }

    /** The field's JSON schema; any type may be null, which counts as absent. */
    ObjectNode schema() {
        ObjectNode schema = JSON.createObjectNode();
        if (!json.isEmpty()) {
            schema.putArray("type").add(json).add("null");
        }
        return schema;
    }
}
