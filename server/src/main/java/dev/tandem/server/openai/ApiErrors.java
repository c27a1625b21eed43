package dev.tandem.server.openai;

import dev.tandem.engine.request.RequestException;
import java.util.ArrayList;
import java.util.List;
import java.util.OptionalDouble;
import tools.jackson.databind.ObjectMapper;
import tools.jackson.databind.node.ObjectNode;

/** Formats errors as clients of OpenAI's API expect them. */
public final class ApiErrors {
    private static final ObjectMapper JSON = new ObjectMapper();

    private ApiErrors() {}

    /**
     * How far loading is.
     *
     * @param work names what is done; may be empty
     * @param progress of the work, from 0 to 1; empty when unknown
     */
    public record Loading(String work, OptionalDouble progress) {}

    static int status(RequestException.Category category) {
        return switch (category) {
            case BAD_REQUEST -> 400;
            case NOT_FOUND -> 404;
            case TOO_LARGE -> 413;
            case OVERLOADED -> 429;
            case NOT_IMPLEMENTED -> 501;
            case UNAVAILABLE -> 503;
        };
    }

    private static String type(int status) {
        return switch (status) {
            case 400, 408, 413, 414, 415, 417, 431 -> "BadRequestError";
            case 401 -> "AuthenticationError";
            case 403 -> "PermissionDeniedError";
            case 404 -> "NotFoundError";
            case 405 -> "MethodNotAllowedError";
            case 429 -> "RateLimitError";
            case 501 -> "NotImplementedError";
            case 503 -> "ServiceUnavailableError";
            default -> "InternalServerError";
        };
    }

    static ObjectNode node(int status, String message, String parameter) {
        ObjectNode root = JSON.createObjectNode();
        ObjectNode error = root.putObject("error");
        error.put("message", message);
        error.put("type", type(status));
        if (parameter.isEmpty()) {
            error.putNull("param");
        } else {
            error.put("param", parameter);
        }
        error.put("code", status);
        return root;
    }

    /** The JSON body of an error that concerns no particular parameter. */
    public static byte[] body(int status, String message) {
        return JSON.writeValueAsBytes(node(status, message, ""));
    }

    /**
     * The JSON body of the 503 that ends by itself: {@code error.loading} tells it from that of an overloaded or ending
     * server.
     */
    public static byte[] body(Loading loading) {
        List<String> known = new ArrayList<>();
        if (!loading.work().isEmpty()) {
            known.add(loading.work());
        }
        loading.progress().ifPresent(progress -> known.add((int) (100 * progress) + " %"));
        ObjectNode root = node(
                503,
                "the model is loading" + (known.isEmpty() ? "" : " (" + String.join(", ", known) + ")")
                        + "; try again in a few seconds",
                "");
        ObjectNode state = ((ObjectNode) root.path("error")).putObject("loading");
        state.put("work", loading.work());
        loading.progress().ifPresent(progress -> state.put("progress", progress));
        return JSON.writeValueAsBytes(root);
    }
}
