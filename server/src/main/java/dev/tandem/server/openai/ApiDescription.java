package dev.tandem.server.openai;

import java.util.List;
import java.util.Locale;
import tools.jackson.databind.ObjectMapper;
import tools.jackson.databind.node.ObjectNode;

/**
 * The description of the API in OpenAPI 3.1, made from the table of paths and the tables of request fields that the
 * server itself reads.
 */
final class ApiDescription {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String OPEN_API = "3.1.0";
    private static final String DESCRIPTION = "description";
    private static final String JSON_TYPE = "application/json";
    private static final String TYPE = "type";
    private static final String ERROR = "Error";
    /** Statuses that any request may get: of the connection, the server or the loading of the model. */
    private static final List<Integer> ERRORS = List.of(400, 403, 405, 408, 414, 417, 431, 500, 503);
    /** Statuses that any request with a body may get as well. */
    private static final List<Integer> ERRORS_WITH_BODY = List.of(404, 413, 415, 429, 501);

    private ApiDescription() {}

    static ObjectNode of(List<Route> routes, String version) {
        ObjectNode root = JSON.createObjectNode().put("openapi", OPEN_API);
        root.putObject("info").put("title", "Tandem").put("version", version);
        ObjectNode paths = root.putObject("paths");
        routes.forEach(route -> operation(
                paths.withObjectProperty(route.path()).putObject(route.method().toLowerCase(Locale.ROOT)), route));
        ObjectNode components = root.putObject("components");
        ObjectNode schemas = components.putObject("schemas");
        routes.forEach(
                route -> route.fields().ifPresent(endpoint -> schemas.set(schemaName(endpoint), request(endpoint))));
        schemas.set(ERROR, error());
        ObjectNode security = components.putObject("securitySchemes");
        security.putObject("bearer").put(TYPE, "http").put("scheme", "bearer");
        security.putObject("key").put(TYPE, "apiKey").put("in", "header").put("name", "x-api-key");
        return root;
    }

    private static String schemaName(ApiFields.Endpoint endpoint) {
        return endpoint.name().toLowerCase(Locale.ROOT) + "_request";
    }

    private static void operation(ObjectNode operation, Route route) {
        operation.put("summary", route.summary());
        if (!route.open()) {
            var security = operation.putArray("security");
            security.addObject().putArray("bearer");
            security.addObject().putArray("key");
        }
        if (route.path().contains(Route.PARAMETER)) {
            operation
                    .putArray("parameters")
                    .addObject()
                    .put("name", "id")
                    .put("in", "path")
                    .put("required", true)
                    .putObject("schema")
                    .put(TYPE, "string");
        }
        route.fields().ifPresent(endpoint -> {
            ObjectNode body = operation.putObject("requestBody").put("required", true);
            reference(body.putObject("content").putObject(JSON_TYPE), schemaName(endpoint));
        });
        responses(operation.putObject("responses"), route);
    }

    private static void responses(ObjectNode responses, Route route) {
        ObjectNode content =
                responses.putObject("200").put(DESCRIPTION, "the answer").putObject("content");
        if (route.path().equals("/metrics")) {
            content.putObject("text/plain");
        } else {
            content.putObject(JSON_TYPE);
        }
        boolean streams = route.fields()
                .filter(endpoint -> ApiFields.honours(endpoint, "stream"))
                .isPresent();
        if (streams) {
            content.putObject("text/event-stream");
        }
        if (!route.open()) {
            refusal(responses, 401);
        }
        ERRORS.forEach(status -> refusal(responses, status));
        if (route.fields().isPresent()) {
            ERRORS_WITH_BODY.forEach(status -> refusal(responses, status));
        } else if (route.path().contains(Route.PARAMETER)) {
            refusal(responses, 404);
        }
    }

    private static void refusal(ObjectNode responses, int status) {
        ObjectNode response = responses.putObject(Integer.toString(status)).put(DESCRIPTION, "an error");
        reference(response.putObject("content").putObject(JSON_TYPE), ERROR);
    }

    private static void reference(ObjectNode media, String schema) {
        media.putObject("schema").put("$ref", "#/components/schemas/" + schema);
    }

    private static ObjectNode request(ApiFields.Endpoint endpoint) {
        ObjectNode schema = JSON.createObjectNode().put(TYPE, "object");
        ObjectNode properties = schema.putObject("properties");
        ApiFields.of(endpoint).forEach((name, rule) -> properties.set(name, property(rule)));
        return schema.put("additionalProperties", false);
    }

    private static ObjectNode property(ApiFields.Rule rule) {
        return switch (rule) {
            case ApiFields.Rule.Honoured honoured -> honoured.type().schema().put(DESCRIPTION, honoured.meaning());
            case ApiFields.Rule.Ignored ignored ->
                FieldType.ANY.schema().put(DESCRIPTION, "without effect: " + ignored.reason());
            case ApiFields.Rule.Refused refused -> {
                ObjectNode schema = FieldType.ANY.schema();
                if (refused.neutral().isEmpty()) {
                    schema.put(TYPE, "null");
                }
                yield schema.put(
                        DESCRIPTION,
                        (refused.neutral().isEmpty() ? "refused: " : "only " + refused.neutral() + ": ")
                                + refused.remedy());
            }
        };
    }

    private static ObjectNode error() {
        ObjectNode error = JSON.createObjectNode().put(TYPE, "object");
        ObjectNode fields = error.putObject("properties")
                .putObject("error")
                .put(TYPE, "object")
                .putObject("properties");
        fields.putObject("message").put(TYPE, "string");
        ObjectNode loading = fields.putObject("loading").put(TYPE, "object");
        loading.put(DESCRIPTION, "only of the 503 while the model loads: the work, and its progress from 0 to 1");
        loading.putObject("properties").putObject("work").put(TYPE, "string");
        loading.withObjectProperty("properties").putObject("progress").put(TYPE, "number");
        error.putArray("required").add("error");
        return error;
    }
}
