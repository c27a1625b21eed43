package dev.tandem.server.openai;

import tools.jackson.databind.ObjectMapper;
import tools.jackson.databind.node.ObjectNode;

/** How an endpoint writes errors. */
enum ErrorFormat {
    /** {@code {"error": {"message", "type", "param", "code"}}}. */
    OPENAI {
        @Override
        ObjectNode node(int status, String message, String parameter, String requestId) {
            return ApiErrors.node(status, message, parameter);
        }
    },
    /** {@code {"type": "error", "error": {"type", "message"}, "request_id"}}. */
    ANTHROPIC {
        @Override
        ObjectNode node(int status, String message, String parameter, String requestId) {
            ObjectNode root = JSON.createObjectNode().put("type", "error");
            root.putObject("error").put("type", anthropicType(status)).put("message", message);
            return requestId.isEmpty() ? root : root.put("request_id", requestId);
        }
    };

    private static final ObjectMapper JSON = new ObjectMapper();

    /**
     * @param parameter that is wrong; empty when none in particular is
     * @param requestId empty when only the header X-Request-Id has it
     */
    abstract ObjectNode node(int status, String message, String parameter, String requestId);

    final byte[] body(int status, String message, String parameter, String requestId) {
        return JSON.writeValueAsBytes(node(status, message, parameter, requestId));
    }

    private static String anthropicType(int status) {
        return switch (status) {
            case 401 -> "authentication_error";
            case 403 -> "permission_error";
            case 404 -> "not_found_error";
            case 408, 504 -> "timeout_error";
            case 413 -> "request_too_large";
            case 429 -> "rate_limit_error";
            case 503 -> "overloaded_error";
            default -> status < 500 ? "invalid_request_error" : "api_error";
        };
    }
}
