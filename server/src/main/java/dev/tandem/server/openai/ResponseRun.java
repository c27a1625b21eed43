package dev.tandem.server.openai;

import dev.tandem.engine.request.FinishReason;
import dev.tandem.server.http.Exchange;
import dev.tandem.server.openai.AnswerBlocks.Block;
import dev.tandem.server.openai.ResponseObject.Status;
import dev.tandem.text.answer.AnswerPart;
import java.util.Optional;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;
import tools.jackson.databind.node.ArrayNode;
import tools.jackson.databind.node.ObjectNode;

/**
 * Computes one response: for a client that waits, as a stream of events, or in the background.
 *
 * <p>Owned by: the virtual thread that computes it.
 */
final class ResponseRun {
    private static final ObjectMapper JSON = new ObjectMapper();

    private final ResponseObject object;
    private final RequestGrammar grammar;
    private final Generation generation;
    private final ArrayNode conversation;
    private final Optional<ResponseStore> store;
    private final ResponseStore.Entry entry;
    private final AnswerStream parts;
    private final AnswerBlocks blocks = new AnswerBlocks();
    private int sequence;

    /**
     * @param grammar of the answer, which this closes
     * @param generation of the answer, which this closes
     * @param conversation up to the answer
     * @param store that keeps the response; empty when nothing does
     */
    ResponseRun(
            ServedModel model,
            ResponseObject object,
            RequestGrammar grammar,
            Generation generation,
            ArrayNode conversation,
            Optional<ResponseStore> store) {
        this.object = object;
        this.grammar = grammar;
        this.generation = generation;
        this.conversation = conversation;
        this.store = store;
        this.parts = new AnswerStream(model, generation, object.request().reading());
        this.entry = new ResponseStore.Entry(object.unfinished(Status.IN_PROGRESS), conversation, generation::cancel);
        store.ifPresent(kept -> kept.add(object.id(), entry));
    }

    /** Computes the response without a client. */
    void background() throws InterruptedException {
        ObjectNode last = object.failed("the server failed; its log has the reason"); // unless it is replaced
        try (grammar;
                generation) {
            last = collect(blocks::add);
        } finally {
            end(last);
        }
    }

    /** Computes the response and answers with it. */
    void answer(Exchange exchange) throws InterruptedException {
        try (grammar;
                generation) {
            ObjectNode ended = collect(blocks::add);
            end(ended); // before the client knows of it, because its next request may name this one
            if (ended.path("status").asString().equals(Status.FAILED.json())) {
                generation.fail(
                        exchange, ErrorFormat.OPENAI, ended.at("/error/message").asString());
            } else {
                exchange.respond(200, "application/json", JSON.writeValueAsBytes(ended));
            }
        } finally {
            exchange.tokens(object.request().prompt().length, parts.outputTokens());
            endUnfinished();
        }
    }

    /** Computes the response and sends its events as they happen. */
    void stream(Exchange exchange) throws InterruptedException {
        try (grammar;
                generation) {
            exchange.beginEvents();
            send(exchange, whole("response.created", object.unfinished(Status.IN_PROGRESS)));
            send(exchange, whole("response.in_progress", object.unfinished(Status.IN_PROGRESS)));
            ObjectNode ended = collect(part -> send(exchange, part));
            end(ended);
            close(exchange, ended);
        } finally {
            exchange.tokens(object.request().prompt().length, parts.outputTokens());
            endUnfinished();
        }
    }

    /** Ends a response whose client has disconnected, or whose thread was interrupted, before its end. */
    private void endUnfinished() {
        if (store.isPresent() && !entry.hasEnded()) {
            end(finished(Status.CANCELLED));
        }
    }

    private ObjectNode finished(Status status) {
        return object.finished(
                status,
                blocks.all(),
                new ResponseObject.Cost(parts.outputTokens(), parts.choice().reasoningTokens(), parts.cachedTokens()));
    }

    private void end(ObjectNode last) {
        store.ifPresent(kept -> {
            ArrayNode whole = conversation.deepCopy();
            writeAnswer(whole.addObject().put("role", "assistant"));
            kept.end(object.id(), entry, last, whole);
        });
    }

    /** The answer as a message of chat completions. */
    private void writeAnswer(ObjectNode message) {
        message.put("content", blocks.text(AnswerBlocks.Kind.TEXT));
        String reasoning = blocks.text(AnswerBlocks.Kind.REASONING);
        if (!reasoning.isEmpty()) {
            message.put("reasoning_content", reasoning);
        }
        blocks.all().stream()
                .filter(block -> block.kind() == AnswerBlocks.Kind.CALL)
                .forEach(block -> {
                    ObjectNode call = message.withArray("tool_calls")
                            .addObject()
                            .put("id", object.callId(block))
                            .put("type", "function");
                    call.putObject("function")
                            .put("name", block.name())
                            .put("arguments", block.text().toString());
                });
    }

    private ObjectNode collect(AnswerStream.PartSink sink) throws InterruptedException {
        Optional<String> failure = parts.read(sink);
        if (failure.isPresent()) {
            return object.failed(failure.get());
        }
        String reason = parts.choice().finishReason;
        if (reason.equals(FinishReason.ABORT.wire())) {
            return finished(Status.CANCELLED);
        }
        return finished(reason.equals(FinishReason.LENGTH.wire()) ? Status.INCOMPLETE : Status.COMPLETED);
    }

    private void send(Exchange exchange, AnswerPart part) throws InterruptedException {
        boolean begins = blocks.begins(part);
        if (begins && !blocks.all().isEmpty()) {
            Block before = blocks.all().getLast();
            endBlock(exchange, before, object.item(before, Status.COMPLETED));
        }
        Block block = blocks.add(part);
        if (begins) {
            beginBlock(exchange, block);
        }
        switch (part) {
            case AnswerPart.Reasoning reasoning ->
                send(exchange, inPart("response.reasoning_text.delta", block).put("delta", reasoning.text()));
            case AnswerPart.Content content -> {
                ObjectNode delta = inPart("response.output_text.delta", block).put("delta", content.text());
                delta.putArray("logprobs");
                send(exchange, delta);
            }
            case AnswerPart.Call call -> {}
            case AnswerPart.Arguments arguments ->
                send(
                        exchange,
                        inItem("response.function_call_arguments.delta", block).put("delta", arguments.text()));
        }
    }

    private void beginBlock(Exchange exchange, Block block) throws InterruptedException {
        send(exchange, item("response.output_item.added", block, object.openItem(block)));
        if (block.kind() != AnswerBlocks.Kind.CALL) {
            ObjectNode added = inPart("response.content_part.added", block);
            added.set("part", ResponseObject.openPart(block));
            send(exchange, added);
        }
    }

    private void endBlock(Exchange exchange, Block block, JsonNode item) throws InterruptedException {
        String text = block.text().toString();
        switch (block.kind()) {
            case REASONING ->
                send(exchange, inPart("response.reasoning_text.done", block).put("text", text));
            case TEXT -> {
                ObjectNode done = inPart("response.output_text.done", block).put("text", text);
                done.putArray("logprobs");
                send(exchange, done);
            }
            case CALL ->
                send(
                        exchange,
                        inItem("response.function_call_arguments.done", block)
                                .put("name", block.name())
                                .put("arguments", text));
        }
        if (block.kind() != AnswerBlocks.Kind.CALL) {
            ObjectNode ended = inPart("response.content_part.done", block);
            ended.set("part", ResponseObject.part(block));
            send(exchange, ended);
        }
        send(exchange, item("response.output_item.done", block, item));
    }

    private void close(Exchange exchange, ObjectNode last) throws InterruptedException {
        String status = last.path("status").asString();
        if (!status.equals(Status.FAILED.json()) && !blocks.all().isEmpty()) {
            Block block = blocks.all().getLast();
            endBlock(exchange, block, last.path("output").get(block.index()));
        }
        // the API has no event for a response that was cancelled
        boolean named = status.equals(Status.COMPLETED.json()) || status.equals(Status.FAILED.json());
        send(exchange, whole("response." + (named ? status : Status.INCOMPLETE.json()), last));
        exchange.endEvents();
    }

    private ObjectNode event(String type) {
        return JSON.createObjectNode().put("type", type).put("sequence_number", sequence++);
    }

    private ObjectNode whole(String type, ObjectNode response) {
        ObjectNode event = event(type);
        event.set("response", response);
        return event;
    }

    private ObjectNode item(String type, Block block, JsonNode item) {
        ObjectNode event = event(type).put("output_index", block.index());
        event.set("item", item);
        return event;
    }

    private ObjectNode inItem(String type, Block block) {
        return event(type).put("item_id", object.itemId(block)).put("output_index", block.index());
    }

    private ObjectNode inPart(String type, Block block) {
        return inItem(type, block).put("content_index", 0);
    }

    private static void send(Exchange exchange, ObjectNode event) throws InterruptedException {
        exchange.event(event.path("type").asString(), JSON.writeValueAsString(event));
    }
}
