package dev.tandem.server.openai;

import dev.tandem.engine.request.FinishReason;
import dev.tandem.server.http.Exchange;
import dev.tandem.text.answer.AnswerPart;
import java.util.Optional;
import tools.jackson.core.JacksonException;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;
import tools.jackson.databind.node.ObjectNode;

/**
 * Writes an answer as Anthropic's Messages API does: as one message, or as a stream of events. A stream has
 * message_start, ping, for each content block content_block_start, content_block_delta (any number) and
 * content_block_stop, and at the end message_delta and message_stop.
 *
 * <p>Owned by: the request's virtual thread.
 */
final class MessagesWriter {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String TYPE = "type";

    private final Exchange exchange;
    private final Generation generation;
    private final String id;
    private final ServedModel model;
    private final AnswerReading reading;
    private final int promptTokens;
    private final AnswerStream parts;
    private final AnswerBlocks blocks = new AnswerBlocks();

    MessagesWriter(Exchange exchange, Generation generation, String id, ServedModel model, AnswerRequest request) {
        this.exchange = exchange;
        this.generation = generation;
        this.id = id;
        this.model = model;
        this.reading = request.reading();
        this.promptTokens = request.prompt().length;
        this.parts = new AnswerStream(model, generation, reading);
    }

    /** Answers with the whole message. */
    void answer() throws InterruptedException {
        try {
            Optional<String> failure = parts.read(blocks::add);
            if (failure.isPresent()) {
                generation.fail(exchange, ErrorFormat.ANTHROPIC, failure.get());
                return;
            }
            ensureBlock();
            ObjectNode message = message();
            blocks.all().forEach(block -> message.withArray("content").add(whole(block)));
            writeReason(message);
            exchange.respond(200, "application/json", JSON.writeValueAsBytes(message));
        } finally {
            exchange.tokens(promptTokens, parts.outputTokens());
        }
    }

    /** Clients read the first block of every answer. */
    private void ensureBlock() {
        if (blocks.all().isEmpty()) {
            blocks.beginText();
        }
    }

    /** Answers with events. */
    void stream() throws InterruptedException {
        try {
            exchange.beginEvents();
            ObjectNode message = message();
            message.putNull("stop_reason").putNull("stop_sequence");
            ObjectNode start = event("message_start");
            start.set("message", message);
            send(start);
            send(event("ping"));
            Optional<String> failure = parts.read(this::part);
            if (failure.isPresent()) {
                send(ErrorFormat.ANTHROPIC.node(generation.failureStatus(), failure.get(), "", exchange.requestId()));
            } else {
                close();
            }
            exchange.endEvents();
        } finally {
            exchange.tokens(promptTokens, parts.outputTokens());
        }
    }

    private void part(AnswerPart part) throws InterruptedException {
        boolean begins = blocks.begins(part);
        if (begins) {
            endBlock();
        }
        AnswerBlocks.Block block = blocks.add(part);
        if (begins) {
            beginBlock(block);
        }
        switch (part) {
            case AnswerPart.Reasoning reasoning -> delta("thinking_delta", "thinking", reasoning.text());
            case AnswerPart.Content content -> delta("text_delta", "text", content.text());
            case AnswerPart.Call call -> {}
            case AnswerPart.Arguments arguments -> delta("input_json_delta", "partial_json", arguments.text());
        }
    }

    private void beginBlock(AnswerBlocks.Block block) throws InterruptedException {
        ObjectNode start = event("content_block_start").put("index", block.index());
        ObjectNode content = start.putObject("content_block");
        switch (block.kind()) {
            case REASONING -> content.put(TYPE, "thinking").put("thinking", "").put("signature", "");
            case TEXT -> content.put(TYPE, "text").put("text", "");
            case CALL -> writeCall(content, block).putObject("input");
        }
        send(start);
    }

    /** Ends the last block, if there is one. */
    private void endBlock() throws InterruptedException {
        if (blocks.all().isEmpty()) {
            return;
        }
        AnswerBlocks.Block block = blocks.all().getLast();
        if (block.kind() == AnswerBlocks.Kind.REASONING) {
            delta("signature_delta", "signature", signature(block));
        }
        send(event("content_block_stop").put("index", block.index()));
    }

    private void delta(String type, String name, String text) throws InterruptedException {
        ObjectNode delta =
                event("content_block_delta").put("index", blocks.all().getLast().index());
        delta.putObject("delta").put(TYPE, type).put(name, text);
        send(delta);
    }

    private void close() throws InterruptedException {
        if (blocks.all().isEmpty()) {
            beginBlock(blocks.beginText());
        }
        endBlock();
        ObjectNode end = event("message_delta");
        writeReason(end.putObject("delta"));
        writeUsage(end);
        send(end);
        send(event("message_stop"));
    }

    private void send(ObjectNode event) throws InterruptedException {
        exchange.event(event.path(TYPE).asString(), JSON.writeValueAsString(event));
    }

    private static ObjectNode event(String type) {
        return JSON.createObjectNode().put(TYPE, type);
    }

    private ObjectNode whole(AnswerBlocks.Block block) {
        ObjectNode content = JSON.createObjectNode();
        switch (block.kind()) {
            case REASONING ->
                content.put(TYPE, "thinking")
                        .put("thinking", block.text().toString())
                        .put("signature", signature(block));
            case TEXT -> content.put(TYPE, "text").put("text", block.text().toString());
            case CALL ->
                writeCall(content, block).set("input", input(block.text().toString()));
        }
        return content;
    }

    private ObjectNode writeCall(ObjectNode content, AnswerBlocks.Block block) {
        return content.put(TYPE, "tool_use")
                .put("id", reading.callId("toolu_", id, block.index()))
                .put("name", block.name());
    }

    /** The arguments; those that are no JSON object come as Anthropic tells clients to send such back. */
    private static JsonNode input(String arguments) {
        try {
            JsonNode input = JSON.readTree(arguments);
            if (input.isObject()) {
                return input;
            }
        } catch (JacksonException e) {
            // written below
        }
        return JSON.createObjectNode().put("INVALID_JSON", arguments);
    }

    /** Clients require a signature and send it back; this server trusts the reasoning that they send without it. */
    private String signature(AnswerBlocks.Block block) {
        return id + "-" + block.index();
    }

    private ObjectNode message() {
        ObjectNode message = JSON.createObjectNode()
                .put("id", id)
                .put(TYPE, "message")
                .put("role", "assistant")
                .put("model", model.name());
        message.putArray("content");
        writeUsage(message);
        return message;
    }

    private void writeReason(ObjectNode node) {
        AnswerChoice choice = parts.choice();
        boolean matched = !choice.stopReason.isEmpty();
        String reason = choice.finishReason.equals(FinishReason.LENGTH.wire())
                ? "max_tokens"
                : matched ? "stop_sequence" : choice.calls.isEmpty() ? "end_turn" : "tool_use";
        node.put("stop_reason", reason);
        if (matched) {
            node.put("stop_sequence", choice.stopReason);
        } else {
            node.putNull("stop_sequence");
        }
    }

    /** In this API, input tokens are those that were not in the cache. */
    private void writeUsage(ObjectNode node) {
        node.putObject("usage")
                .put("input_tokens", promptTokens - parts.cachedTokens())
                .put("cache_creation_input_tokens", 0)
                .put("cache_read_input_tokens", parts.cachedTokens())
                .put("output_tokens", parts.outputTokens());
    }
}
