package dev.tandem.server.openai;

import dev.tandem.engine.request.TokenEvent;
import dev.tandem.server.http.Exchange;
import dev.tandem.server.openai.ResponseObject.Status;
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

    /** Receives text as it is generated. */
    private interface TextSink {
        void text(String text) throws InterruptedException;
    }

    private final ResponseObject object;
    private final Generation generation;
    private final ArrayNode conversation;
    private final Optional<ResponseStore> store;
    private final ResponseStore.Entry entry;
    private final StringBuilder text = new StringBuilder();
    private int outputTokens;
    private int sequence;

    /**
     * @param conversation up to the answer
     * @param store that keeps the response; empty when nothing does
     */
    ResponseRun(ResponseObject object, Generation generation, ArrayNode conversation, Optional<ResponseStore> store) {
        this.object = object;
        this.generation = generation;
        this.conversation = conversation;
        this.store = store;
        this.entry = new ResponseStore.Entry(object.unfinished(Status.IN_PROGRESS), conversation, generation::cancel);
        store.ifPresent(kept -> kept.add(object.id(), entry));
    }

    /** Computes the response without a client. */
    void background() throws InterruptedException {
        ObjectNode last = object.failed("the server ended before the response was complete");
        try (generation) {
            last = collect(piece -> {});
        } finally {
            end(last);
        }
    }

    /** Computes the response and answers with it. */
    void answer(Exchange exchange) throws InterruptedException {
        ObjectNode last = cancelled();
        try (generation) {
            last = collect(piece -> {});
            if (last.path("status").asString().equals(Status.FAILED.json())) {
                generation.fail(
                        exchange, ErrorFormat.OPENAI, last.at("/error/message").asString());
            } else {
                exchange.respond(200, "application/json", JSON.writeValueAsBytes(last));
            }
        } finally {
            exchange.tokens(object.promptTokens(), outputTokens);
            end(last);
        }
    }

    /** Computes the response and sends its events as they happen. */
    void stream(Exchange exchange) throws InterruptedException {
        Optional<ObjectNode> last = Optional.empty();
        try (generation) {
            exchange.beginEvents();
            open(exchange);
            ObjectNode ended = collect(piece -> {
                ObjectNode delta = part("response.output_text.delta").put("delta", piece);
                delta.putArray("logprobs");
                send(exchange, delta);
            });
            last = Optional.of(ended);
            close(exchange, ended);
        } finally {
            exchange.tokens(object.promptTokens(), outputTokens);
            end(last.orElseGet(this::cancelled)); // the client has disconnected
        }
    }

    private ObjectNode cancelled() {
        return object.finished(Status.CANCELLED, text.toString(), outputTokens, 0);
    }

    private void end(ObjectNode last) {
        store.ifPresent(kept -> {
            ArrayNode whole = conversation.deepCopy();
            whole.addObject().put("role", "assistant").put("content", text.toString());
            kept.end(object.id(), entry, last, whole);
        });
    }

    private ObjectNode collect(TextSink sink) throws InterruptedException {
        while (true) {
            switch (generation.next().event()) {
                case TokenEvent.Token token -> {
                    outputTokens++;
                    append(token.text(), sink);
                }
                case TokenEvent.Finished finished -> {
                    append(finished.text(), sink);
                    Status status = switch (finished.reason()) {
                        case STOP -> Status.COMPLETED;
                        case LENGTH -> Status.INCOMPLETE;
                        case ABORT -> Status.CANCELLED;
                    };
                    return object.finished(
                            status,
                            text.toString(),
                            outputTokens,
                            finished.usage().cachedTokens());
                }
                case TokenEvent.Failed failed -> {
                    return object.failed(failed.message());
                }
            }
        }
    }

    private void append(String piece, TextSink sink) throws InterruptedException {
        if (!piece.isEmpty()) {
            text.append(piece);
            sink.text(piece);
        }
    }

    private void open(Exchange exchange) throws InterruptedException {
        send(exchange, whole("response.created", object.unfinished(Status.IN_PROGRESS)));
        send(exchange, whole("response.in_progress", object.unfinished(Status.IN_PROGRESS)));
        send(exchange, item("response.output_item.added", object.openMessage()));
        ObjectNode added = part("response.content_part.added");
        added.set("part", ResponseObject.part(""));
        send(exchange, added);
    }

    private void close(Exchange exchange, ObjectNode last) throws InterruptedException {
        String status = last.path("status").asString();
        if (!status.equals(Status.FAILED.json())) {
            ObjectNode done = part("response.output_text.done").put("text", text.toString());
            done.putArray("logprobs");
            send(exchange, done);
            ObjectNode ended = part("response.content_part.done");
            ended.set("part", ResponseObject.part(text.toString()));
            send(exchange, ended);
            send(exchange, item("response.output_item.done", last.path("output").get(0)));
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

    private ObjectNode item(String type, JsonNode item) {
        ObjectNode event = event(type).put("output_index", 0);
        event.set("item", item);
        return event;
    }

    private ObjectNode part(String type) {
        return event(type)
                .put("item_id", object.messageId())
                .put("output_index", 0)
                .put("content_index", 0);
    }

    private static void send(Exchange exchange, ObjectNode event) throws InterruptedException {
        exchange.event(event.path("type").asString(), JSON.writeValueAsString(event));
    }
}
