package dev.tandem.server.openai;

import dev.tandem.text.answer.AnswerPart;
import java.util.Optional;
import java.util.function.IntFunction;
import tools.jackson.databind.ObjectMapper;
import tools.jackson.databind.node.ArrayNode;
import tools.jackson.databind.node.ObjectNode;

/** How {@code /v1/chat/completions} writes a choice. */
final class ChatShape implements AnswerWriter.Shape {
    private static final ObjectMapper JSON = new ObjectMapper();

    @Override
    public String object(boolean stream) {
        return stream ? "chat.completion.chunk" : "chat.completion";
    }

    @Override
    public Optional<ObjectNode> opening() {
        ObjectNode node = JSON.createObjectNode();
        node.putObject("delta").put("role", "assistant").put("content", "");
        return Optional.of(node);
    }

    /** A call's id, type and name come once, in its first chunk; clients join what comes later by the index. */
    @Override
    public void writePart(ObjectNode choice, AnswerPart part, IntFunction<String> callId) {
        ObjectNode delta = choice.putObject("delta");
        switch (part) {
            case AnswerPart.Reasoning reasoning -> delta.put("reasoning_content", reasoning.text());
            case AnswerPart.Content content -> delta.put("content", content.text());
            case AnswerPart.Call call -> {
                ObjectNode node = delta.putArray("tool_calls").addObject().put("index", call.index());
                writeCall(node, callId.apply(call.index()), call.name(), "");
            }
            case AnswerPart.Arguments arguments ->
                delta.putArray("tool_calls")
                        .addObject()
                        .put("index", arguments.index())
                        .putObject("function")
                        .put("arguments", arguments.text());
        }
    }

    private static void writeCall(ObjectNode node, String id, String name, String arguments) {
        node.put("id", id)
                .put("type", "function")
                .putObject("function")
                .put("name", name)
                .put("arguments", arguments);
    }

    @Override
    public void writeEnd(ObjectNode choice) {
        choice.putObject("delta");
    }

    @Override
    public void writeWhole(ObjectNode choice, AnswerChoice answer, IntFunction<String> callId) {
        ObjectNode message = choice.putObject("message").put("role", "assistant");
        if (answer.content.isEmpty() && !answer.calls.isEmpty()) {
            message.putNull("content");
        } else {
            message.put("content", answer.content.toString());
        }
        if (answer.showsReasoning()) {
            message.put("reasoning_content", answer.reasoning.toString());
        }
        for (int i = 0; i < answer.calls.size(); i++) {
            AnswerChoice.Call call = answer.calls.get(i);
            ObjectNode node = message.withArray("tool_calls").addObject();
            writeCall(node, callId.apply(i), call.name(), call.arguments().toString());
        }
    }

    /** The choices have one prompt, so the answer has its log-probabilities once. */
    @Override
    public void writePrompt(ObjectNode root, ObjectNode choice, ArrayNode logprobs) {
        root.set("prompt_logprobs", logprobs);
    }

    @Override
    public void writeLogprobs(ObjectNode choice, Logprobs logprobs) {
        logprobs.writeChat(choice);
    }
}
