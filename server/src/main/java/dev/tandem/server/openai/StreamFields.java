package dev.tandem.server.openai;

import dev.tandem.engine.request.RequestException;
import tools.jackson.databind.JsonNode;

/** {@code stream}, {@code stream_options} and {@code host_usage}. */
final class StreamFields {
    private StreamFields() {}

    static AnswerWriter.Wishes read(RequestFields fields, boolean logprobs) {
        boolean stream = fields.flag("stream", false);
        boolean usage = false;
        boolean continuous = false;
        var options = fields.field("stream_options");
        if (options.isPresent()) {
            JsonNode node = options.get();
            if (!node.isObject()) {
                throw RequestFields.wrong("stream_options", node, "an object");
            }
            if (!stream) {
                throw RequestException.bad("stream_options", "stream_options needs stream to be true");
            }
            usage = node.path("include_usage").asBoolean(false);
            continuous = node.path("continuous_usage_stats").asBoolean(false);
        }
        return new AnswerWriter.Wishes(stream, usage, continuous, logprobs, fields.flag("host_usage", false));
    }
}
