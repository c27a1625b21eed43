package dev.tandem.server.openai;

import dev.tandem.engine.request.FinishReason;
import dev.tandem.engine.request.TokenEvent;
import dev.tandem.engine.sampling.PromptScorer;
import dev.tandem.server.http.Exchange;
import dev.tandem.text.answer.AnswerPart;
import java.util.List;
import java.util.Optional;
import java.util.function.IntFunction;
import java.util.stream.Stream;
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

        /**
         * Writes one chunk of a stream.
         *
         * @param callId the id of a call by its index
         */
        void writePart(ObjectNode choice, AnswerPart part, IntFunction<String> callId);

        /** Writes the last chunk of a choice, which has no text. */
        void writeEnd(ObjectNode choice);

        /**
         * Writes an answer that is not streamed.
         *
         * @param callId the id of a call by its index
         */
        void writeWhole(ObjectNode choice, AnswerChoice answer, IntFunction<String> callId);

        void writeLogprobs(ObjectNode choice, Logprobs logprobs);

        /**
         * Writes the log-probabilities of a choice's prompt.
         *
         * @param root the answer
         */
        void writePrompt(ObjectNode root, ObjectNode choice, ArrayNode logprobs);
    }

    /**
     * What the answer contains, as the request asked.
     *
     * @param promptAlone whether the answer has no tokens of its own
     */
    record OutputOptions(
            boolean stream,
            boolean includeUsage,
            boolean continuousUsage,
            boolean logprobs,
            boolean hostUsage,
            int choicesPerPrompt,
            boolean promptAlone) {
        /** The same without tokens of the answer's own. */
        OutputOptions alone() {
            return new OutputOptions(
                    stream, includeUsage, continuousUsage, logprobs, hostUsage, choicesPerPrompt, true);
        }
    }

    private final String id;
    private final long created;
    private final ServedModel model;
    private final Shape shape;
    private final OutputOptions output;
    private final AnswerReading reading;
    private final AnswerChoice[] choices;
    private PromptLogprobs promptLogprobs = PromptLogprobs.NONE;
    private List<PromptScorer> scorers = List.of();
    private final int promptTokens;
    private int completionTokens;
    private int hostTokens;
    /** Of all choices. */
    private int cachedTokens;
    /** How many of them were found in host blocks. */
    private int hostCachedTokens;

    private int running;

    /** @param promptTokens of all prompts together; each prompt counts once, however many choices it has */
    AnswerWriter(
            String id,
            long created,
            ServedModel model,
            Shape shape,
            OutputOptions output,
            AnswerReading reading,
            int choices,
            int promptTokens) {
        this.id = id;
        this.created = created;
        this.model = model;
        this.shape = shape;
        this.output = output;
        this.reading = reading;
        this.promptTokens = promptTokens;
        this.running = choices;
        this.choices = new AnswerChoice[choices];
        for (int i = 0; i < choices; i++) {
            this.choices[i] = new AnswerChoice(model.tokenizer().vocabulary(), reading);
        }
    }

    /** Puts text before the generated text of a choice ({@code echo}). */
    void prefix(int choice, String text) {
        choices[choice].prefix(text);
    }

    /**
     * Adds log-probabilities of the prompts to the answer.
     *
     * @param wanted which of them
     * @param of each prompt; it has its scores when the prompt's choices have ended
     */
    void score(PromptLogprobs wanted, List<PromptScorer> of) {
        promptLogprobs = wanted;
        scorers = of;
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
            AnswerChoice choice = choices[next.index()];
            switch (next.event()) {
                case TokenEvent.Token token -> {
                    accept(choice, token);
                    choice.endReasoning(generation, next.index(), model.tokenizer());
                }
                case TokenEvent.Finished finished -> {
                    finish(choice, finished);
                    if (choice.lacksCall()) {
                        generation.fail(exchange, ErrorFormat.OPENAI, AnswerChoice.NO_CALL);
                        return;
                    }
                }
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
            shape.writeWhole(node, choices[i], callIds(i));
            writePrompt(root, node, i);
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
            AnswerChoice choice = choices[next.index()];
            switch (next.event()) {
                case TokenEvent.Token token -> {
                    List<AnswerPart> parts = accept(choice, token);
                    sendParts(exchange, next.index(), parts);
                    if (parts.isEmpty() && output.logprobs()) {
                        sendPart(exchange, next.index(), new AnswerPart.Content(""));
                    }
                    sendParts(exchange, next.index(), choice.endReasoning(generation, next.index(), model.tokenizer()));
                }
                case TokenEvent.Finished finished -> {
                    sendParts(exchange, next.index(), finish(choice, finished));
                    if (choice.lacksCall()) {
                        sendFailure(exchange, 500, AnswerChoice.NO_CALL);
                        return;
                    }
                    sendEnd(exchange, next.index());
                }
                case TokenEvent.Failed failed -> {
                    sendFailure(exchange, generation.failureStatus(), failed.message());
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
        } else if (!choices[index].content.isEmpty()) {
            sendPart(exchange, index, new AnswerPart.Content(choices[index].content.toString()));
        }
    }

    private List<AnswerPart> accept(AnswerChoice choice, TokenEvent.Token token) {
        if (output.promptAlone()) {
            return List.of();
        }
        completionTokens++;
        hostTokens += token.fromHost() ? 1 : 0;
        return choice.accept(token);
    }

    private List<AnswerPart> finish(AnswerChoice choice, TokenEvent.Finished finished) {
        cachedTokens += choice.cachedTokens(finished);
        hostCachedTokens += choice.hostCachedTokens(finished);
        running--;
        return choice.finish(
                output.promptAlone()
                        ? new TokenEvent.Finished(FinishReason.LENGTH, "", "", finished.usage())
                        : finished);
    }

    private void sendFailure(Exchange exchange, int status, String message) throws InterruptedException {
        exchange.event(JSON.writeValueAsString(ApiErrors.node(status, message, "")));
        exchange.event("[DONE]");
        exchange.endEvents();
    }

    private void sendParts(Exchange exchange, int index, List<AnswerPart> parts) throws InterruptedException {
        for (AnswerPart part : parts) {
            sendPart(exchange, index, part);
        }
    }

    private void sendPart(Exchange exchange, int index, AnswerPart part) throws InterruptedException {
        ObjectNode root = root(true);
        ObjectNode node = choiceNode(root.putArray("choices"), index);
        shape.writePart(node, part, callIds(index));
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

    private IntFunction<String> callIds(int choice) {
        return call -> reading.callId("call_", id + "-" + choice, call);
    }

    private void writePrompt(ObjectNode root, ObjectNode node, int index) {
        if (scorers.isEmpty()) {
            return;
        }
        PromptScorer scorer = scorers.get(index / output.choicesPerPrompt());
        if (promptLogprobs.echoed() >= 0) {
            choices[index].logprobs.prepend(scorer, promptLogprobs.echoed());
        }
        if (promptLogprobs.listed() >= 0) {
            shape.writePrompt(
                    root, node, promptLogprobs.list(scorer, model.tokenizer().vocabulary()));
        }
    }

    private void writeLogprobs(ObjectNode node, AnswerChoice choice) {
        if (output.logprobs()) {
            shape.writeLogprobs(node, choice.logprobs);
        } else {
            node.putNull("logprobs");
        }
    }

    private static void writeReasons(ObjectNode node, AnswerChoice choice) {
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
            ObjectNode details = root.withObject("usage").putObject("prompt_tokens_details");
            details.put("cached_tokens", ofPrompts(cachedTokens));
            if (output.hostUsage()) {
                details.put("host_cached_tokens", ofPrompts(hostCachedTokens));
            }
        }
        if (output.hostUsage()) {
            root.withObject("usage").putObject("completion_tokens_details").put("host_tokens", hostTokens);
        }
        if (reading.format().reasoning().isPresent()) {
            root.withObject("usage")
                    .withObject("completion_tokens_details")
                    .put(
                            "reasoning_tokens",
                            Stream.of(choices)
                                    .mapToInt(AnswerChoice::reasoningTokens)
                                    .sum());
        }
    }

    /** Tokens of all prompts: one with several choices counts once, in {@code prompt_tokens} too. */
    private int ofPrompts(int tokensOfChoices) {
        return Math.min(promptTokens, tokensOfChoices / output.choicesPerPrompt());
    }
}
