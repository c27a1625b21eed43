package dev.tandem.server.openai;

import dev.tandem.engine.request.FinishReason;
import dev.tandem.engine.request.TokenEvent;
import dev.tandem.server.http.Exchange;
import tools.jackson.databind.ObjectMapper;
import tools.jackson.databind.node.ObjectNode;

/**
 * Writes an answer as Anthropic's Messages API does: as one message, or as a stream of events in the order
 * message_start, content_block_start, ping, content_block_delta (any number), content_block_stop, message_delta,
 * message_stop.
 *
 * <p>Owned by: the request's virtual thread.
 */
final class MessagesWriter {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String TYPE = "type";

    private final Exchange exchange;
    private final Generation generation;
    private final String id;
    private final String model;
    private final int promptTokens;
    private int outputTokens;
    /** Of the prompt; known at the end. */
    private int cachedTokens;

    MessagesWriter(Exchange exchange, Generation generation, String id, String model, int promptTokens) {
        this.exchange = exchange;
        this.generation = generation;
        this.id = id;
        this.model = model;
        this.promptTokens = promptTokens;
    }

    /** Answers with the whole message. */
    void answer() throws InterruptedException {
        StringBuilder text = new StringBuilder();
        try {
            while (true) {
                switch (generation.next().event()) {
                    case TokenEvent.Token token -> {
                        outputTokens++;
                        text.append(token.text());
                    }
                    case TokenEvent.Finished finished -> {
                        text.append(finished.text());
                        cachedTokens = finished.usage().cachedTokens();
                        ObjectNode message = message();
                        message.withArray("content")
                                .addObject()
                                .put(TYPE, "text")
                                .put("text", text.toString());
                        writeEnd(message, finished);
                        exchange.respond(200, "application/json", JSON.writeValueAsBytes(message));
                        return;
                    }
                    case TokenEvent.Failed failed -> {
                        generation.fail(exchange, ErrorFormat.ANTHROPIC, failed.message());
                        return;
                    }
                }
            }
        } finally {
            exchange.tokens(promptTokens, outputTokens);
        }
    }

    /** Answers with events. */
    void stream() throws InterruptedException {
        try {
            exchange.beginEvents();
            open();
            while (true) {
                switch (generation.next().event()) {
                    case TokenEvent.Token token -> {
                        outputTokens++;
                        delta(token.text());
                    }
                    case TokenEvent.Finished finished -> {
                        delta(finished.text());
                        cachedTokens = finished.usage().cachedTokens();
                        close(finished);
                        return;
                    }
                    case TokenEvent.Failed failed -> {
                        send(ErrorFormat.ANTHROPIC.node(
                                generation.failureStatus(), failed.message(), "", exchange.requestId()));
                        exchange.endEvents();
                        return;
                    }
                }
            }
        } finally {
            exchange.tokens(promptTokens, outputTokens);
        }
    }

    private void open() throws InterruptedException {
        ObjectNode message = message();
        message.putNull("stop_reason").putNull("stop_sequence");
        ObjectNode start = event("message_start");
        start.set("message", message);
        send(start);
        ObjectNode block = event("content_block_start").put("index", 0);
        block.putObject("content_block").put(TYPE, "text").put("text", "");
        send(block);
        send(event("ping"));
    }

    private void delta(String text) throws InterruptedException {
        if (!text.isEmpty()) {
            ObjectNode delta = event("content_block_delta").put("index", 0);
            delta.putObject("delta").put(TYPE, "text_delta").put("text", text);
            send(delta);
        }
    }

    private void close(TokenEvent.Finished finished) throws InterruptedException {
        send(event("content_block_stop").put("index", 0));
        ObjectNode end = event("message_delta");
        writeReason(end.putObject("delta"), finished);
        writeUsage(end);
        send(end);
        send(event("message_stop"));
        exchange.endEvents();
    }

    private void send(ObjectNode event) throws InterruptedException {
        exchange.event(event.path(TYPE).asString(), JSON.writeValueAsString(event));
    }

    private static ObjectNode event(String type) {
        return JSON.createObjectNode().put(TYPE, type);
    }

    private ObjectNode message() {
        ObjectNode message = JSON.createObjectNode()
                .put("id", id)
                .put(TYPE, "message")
                .put("role", "assistant")
                .put("model", model);
        message.putArray("content");
        writeUsage(message);
        return message;
    }

    private void writeEnd(ObjectNode message, TokenEvent.Finished finished) {
        writeReason(message, finished);
        writeUsage(message);
    }

    private static void writeReason(ObjectNode node, TokenEvent.Finished finished) {
        boolean matched = !finished.stopReason().isEmpty();
        node.put(
                "stop_reason",
                finished.reason() == FinishReason.LENGTH ? "max_tokens" : matched ? "stop_sequence" : "end_turn");
        if (matched) {
            node.put("stop_sequence", finished.stopReason());
        } else {
            node.putNull("stop_sequence");
        }
    }

    /** In this API, input tokens are those that were not in the cache. */
    private void writeUsage(ObjectNode node) {
        node.putObject("usage")
                .put("input_tokens", promptTokens - cachedTokens)
                .put("cache_creation_input_tokens", 0)
                .put("cache_read_input_tokens", cachedTokens)
                .put("output_tokens", outputTokens);
    }
}
