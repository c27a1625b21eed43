package dev.tandem.server.openai;

import dev.tandem.engine.request.RequestException;
import dev.tandem.server.http.Printable;
import java.util.List;
import tools.jackson.databind.JsonNode;

/** Reads {@code stream}, {@code stream_options} and {@code host_usage}. */
final class StreamFields {
    private static final List<String> OPTIONS = List.of("include_usage", "continuous_usage_stats");

    private StreamFields() {}

    static AnswerWriter.OutputOptions read(RequestFields fields, boolean logprobs) {
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
            usage = option(node, "include_usage");
            continuous = option(node, "continuous_usage_stats");
            node.propertyNames().stream()
                    .filter(name -> !OPTIONS.contains(name))
                    .findFirst()
                    .ifPresent(name -> {
                        String shown = "stream_options." + Printable.of(name);
                        throw RequestException.bad(
                                shown, shown + " is not supported; stream_options has " + String.join(", ", OPTIONS));
                    });
        }
        return new AnswerWriter.OutputOptions(
                stream,
                usage,
                continuous,
                logprobs,
                fields.flag("host_usage", false),
                SamplingFields.choices(fields),
                false);
    }

    private static boolean option(JsonNode options, String name) {
        JsonNode value = options.path(name);
        return !value.isMissingNode() && !value.isNull() && RequestFields.truth("stream_options." + name, value);
    }
}
