package dev.tandem.server.openai;

import dev.tandem.engine.request.TokenEvent;
import dev.tandem.server.http.Exchange;
import java.util.Optional;
import tools.jackson.databind.ObjectMapper;
import tools.jackson.databind.node.ArrayNode;
import tools.jackson.databind.node.ObjectNode;

/**
 * Writes the events of a generation as one JSON answer or as a stream of chunks. The chat and completion endpoints
 * write a choice differently; each has its {@link Shape}.
 *
 * <p>Owned by: the request's virtual thread.
 */
final class AnswerWriter {
    private static final ObjectMapper JSON = new ObjectMapper();

    /** How an endpoint writes a choice. */
    interface Shape {
        String object(boolean stream);

        /** What a stream sends before the first text of a choice; chat sends the role. */
        default Optional<ObjectNode> opening() {
            return Optional.empty();
        }

        /** Writes one text chunk of a stream. */
        void writePiece(ObjectNode choice, String text);

        /** Writes the last chunk of a choice, which has no text. */
        void writeEnd(ObjectNode choice);

        /** Writes the whole text of an answer that is not streamed. */
        void writeWhole(ObjectNode choice, String text);

        void writeLogprobs(ObjectNode choice, Logprobs logprobs);
    }

    /** What the answer contains, as the request asked. */
    record OutputOptions(
            boolean stream,
            boolean includeUsage,
            boolean continuousUsage,
            boolean logprobs,
            boolean hostUsage,
            int choicesPerPrompt) {}

    private final String id;
    private final long created;
    private final ServedModel model;
    private final Shape shape;
    private final OutputOptions output;
    private final Choice[] choices;
    private final int promptTokens;
    private int completionTokens;
    private int hostTokens;
    /** Of all choices. */
    private int cachedTokens;

    private int running;

    private static final class Choice {
        final StringBuilder text = new StringBuilder();
        final Logprobs logprobs;
        String finishReason = "";
        String stopReason = "";

        Choice(ServedModel model) {
            logprobs = new Logprobs(model.tokenizer().vocabulary());
        }
    }

    /** @param promptTokens of all prompts together; each prompt counts once, however many choices it has */
    AnswerWriter(
            String id,
            long created,
            ServedModel model,
            Shape shape,
            OutputOptions output,
            int choices,
            int promptTokens) {
        this.id = id;
        this.created = created;
        this.model = model;
        this.shape = shape;
        this.output = output;
        this.promptTokens = promptTokens;
        this.running = choices;
        this.choices = new Choice[choices];
        for (int i = 0; i < choices; i++) {
            this.choices[i] = new Choice(model);
        }
    }

    /** Puts text before the generated text of a choice ({@code echo}). */
    void prefix(int choice, String text) {
        choices[choice].text.append(text);
    }

    void write(Exchange exchange, Generation generation) throws InterruptedException {
        try {
            if (output.stream()) {
                stream(exchange, generation);
            } else {
                answer(exchange, generation);
            }
        } finally {
            exchange.tokens(promptTokens, completionTokens);
        }
    }

    private void answer(Exchange exchange, Generation generation) throws InterruptedException {
        while (generation.isRunning()) {
            Generation.Event next = generation.next();
            Choice choice = choices[next.index()];
            switch (next.event()) {
                case TokenEvent.Token token -> accept(choice, token);
                case TokenEvent.Finished finished -> finish(choice, finished);
                case TokenEvent.Failed failed -> {
                    generation.fail(exchange, ErrorFormat.OPENAI, failed.message());
                    return;
                }
            }
        }
        ObjectNode root = root(false);
        ArrayNode list = root.putArray("choices");
        for (int i = 0; i < choices.length; i++) {
            ObjectNode node = choiceNode(list, i);
            shape.writeWhole(node, choices[i].text.toString());
            writeLogprobs(node, choices[i]);
            writeReasons(node, choices[i]);
        }
        writeUsage(root);
        exchange.respond(200, "application/json", JSON.writeValueAsBytes(root));
    }

    private void stream(Exchange exchange, Generation generation) throws InterruptedException {
        exchange.beginEvents();
        for (int i = 0; i < choices.length; i++) {
            open(exchange, i);
        }
        while (generation.isRunning()) {
            Generation.Event next = generation.next();
            Choice choice = choices[next.index()];
            switch (next.event()) {
                case TokenEvent.Token token -> {
                    accept(choice, token);
                    if (!token.text().isEmpty() || output.logprobs()) {
                        sendPiece(exchange, next.index(), token.text());
                    }
                }
                case TokenEvent.Finished finished -> {
                    finish(choice, finished);
                    if (!finished.text().isEmpty()) {
                        sendPiece(exchange, next.index(), finished.text());
                    }
                    sendEnd(exchange, next.index());
                }
                case TokenEvent.Failed failed -> {
                    exchange.event(
                            JSON.writeValueAsString(ApiErrors.node(generation.failureStatus(), failed.message(), "")));
                    exchange.event("[DONE]");
                    exchange.endEvents();
                    return;
                }
            }
        }
        if (output.includeUsage()) {
            ObjectNode root = root(true);
            root.putArray("choices");
            writeUsage(root);
            exchange.event(JSON.writeValueAsString(root));
        }
        exchange.event("[DONE]");
        exchange.endEvents();
    }

    private void open(Exchange exchange, int index) throws InterruptedException {
        Optional<ObjectNode> opening = shape.opening();
        if (opening.isPresent()) {
            ObjectNode root = root(true);
            ObjectNode node = choiceNode(root.putArray("choices"), index);
            node.setAll(opening.get());
            node.putNull("logprobs").putNull("finish_reason");
            exchange.event(JSON.writeValueAsString(root));
        } else if (!choices[index].text.isEmpty()) {
            sendPiece(exchange, index, choices[index].text.toString());
        }
    }

    private void accept(Choice choice, TokenEvent.Token token) {
        completionTokens++;
        token.logprobs().ifPresent(values -> choice.logprobs.add(token.id(), values, choice.text.length()));
        choice.text.append(token.text());
    }

    private void finish(Choice choice, TokenEvent.Finished finished) {
        hostTokens += finished.usage().hostTokens();
        cachedTokens += finished.usage().cachedTokens();
        running--;
        choice.text.append(finished.text());
        choice.finishReason = finished.reason().wire();
        choice.stopReason = finished.stopReason();
    }

    private void sendPiece(Exchange exchange, int index, String text) throws InterruptedException {
        ObjectNode root = root(true);
        ObjectNode node = choiceNode(root.putArray("choices"), index);
        shape.writePiece(node, text);
        writeLogprobs(node, choices[index]);
        choices[index].logprobs.clear();
        node.putNull("finish_reason");
        send(exchange, root);
    }

    private void sendEnd(Exchange exchange, int index) throws InterruptedException {
        ObjectNode root = root(true);
        ObjectNode node = choiceNode(root.putArray("choices"), index);
        shape.writeEnd(node);
        node.putNull("logprobs");
        writeReasons(node, choices[index]);
        send(exchange, root);
    }

    private void send(Exchange exchange, ObjectNode root) throws InterruptedException {
        if (output.continuousUsage()) {
            writeUsage(root);
        }
        exchange.event(JSON.writeValueAsString(root));
    }

    private ObjectNode root(boolean stream) {
        ObjectNode root = JSON.createObjectNode();
        root.put("id", id);
        root.put("object", shape.object(stream));
        root.put("created", created);
        root.put("model", model.name());
        return root;
    }

    private static ObjectNode choiceNode(ArrayNode list, int index) {
        return list.addObject().put("index", index);
    }

    private void writeLogprobs(ObjectNode node, Choice choice) {
        if (output.logprobs()) {
            shape.writeLogprobs(node, choice.logprobs);
        } else {
            node.putNull("logprobs");
        }
    }

    private static void writeReasons(ObjectNode node, Choice choice) {
        node.put("finish_reason", choice.finishReason);
        if (choice.stopReason.isEmpty()) {
            node.putNull("stop_reason");
        } else {
            node.put("stop_reason", choice.stopReason);
        }
    }

    private void writeUsage(ObjectNode root) {
        root.putObject("usage")
                .put("prompt_tokens", promptTokens)
                .put("completion_tokens", completionTokens)
                .put("total_tokens", promptTokens + completionTokens);
        if (running == 0 && model.engine().config().prefixCache().enabled()) {
            // a prompt of several choices counts once, in prompt_tokens too
            root.withObject("usage")
                    .putObject("prompt_tokens_details")
                    .put("cached_tokens", Math.min(promptTokens, cachedTokens / output.choicesPerPrompt()));
        }
        if (output.hostUsage()) {
            root.withObject("usage").putObject("completion_tokens_details").put("host_tokens", hostTokens);
        }
    }
}
