package dev.tandem.server.openai;

import dev.tandem.engine.request.LatencyTargets;
import dev.tandem.engine.request.Request;
import dev.tandem.engine.request.RequestException;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.server.http.Exchange;
import dev.tandem.text.ChatTemplate;
import dev.tandem.text.jinja.JinjaException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;
import tools.jackson.databind.node.ObjectNode;

/** {@code POST /v1/chat/completions}. */
final class ChatHandler {
    private static final ObjectMapper JSON = new ObjectMapper();

    private static final AnswerWriter.Shape SHAPE = new AnswerWriter.Shape() {
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

        @Override
        public void writePiece(ObjectNode choice, String text) {
            choice.putObject("delta").put("content", text);
        }

        @Override
        public void writeEnd(ObjectNode choice) {
            choice.putObject("delta");
        }

        @Override
        public void writeWhole(ObjectNode choice, String text) {
            choice.putObject("message").put("role", "assistant").put("content", text);
        }

        @Override
        public void writeLogprobs(ObjectNode choice, Logprobs logprobs) {
            logprobs.writeChat(choice);
        }
    };

    private final ServedModel model;

    ChatHandler(ServedModel model) {
        this.model = model;
    }

    void serve(Exchange exchange, String requestId, long created) throws InterruptedException {
        RequestFields fields = RequestFields.parse(exchange.body());
        ModelName.check(fields, model);
        int[] prompt = prompt(model, fields);
        int n = SamplingFields.choices(fields);
        SamplingParams sampling = SamplingFields.read(fields, model.defaults(), maxTokens(fields, prompt), logprobs(fields));
        AnswerWriter.Wishes wishes = StreamFields.read(fields, sampling.logprobs() >= 0);
        boolean skipSpecial = fields.flag("skip_special_tokens", true);
        int priority = fields.integer("priority", 0);
        LatencyTargets targets = SamplingFields.targets(fields);
        refuseUnsupported(fields);
        fields.warnAboutUnknown();
        String id = "chatcmpl-" + requestId;
        try (Generation generation = Generation.start(model.engine(), exchange, n, (index, sink) -> new Request(
                id + "-" + index, prompt, n == 1 ? sampling : sampling.forChoice(index), priority, targets, model.decoder(skipSpecial), sink))) {
            new AnswerWriter(id, created, model, SHAPE, wishes, n, prompt.length).write(exchange, generation);
        }
    }

    private int maxTokens(RequestFields fields, int[] prompt) {
        int rest = Math.max(1, model.engine().config().contextTokens() - prompt.length);
        int old = fields.integer("max_tokens", rest);
        return fields.integer("max_completion_tokens", old);
    }

    private static int logprobs(RequestFields fields) {
        boolean wanted = fields.flag("logprobs", false);
        int top = fields.integer("top_logprobs", 0);
        if (top != 0 && !wanted) {
            throw RequestException.bad("top_logprobs", "top_logprobs needs logprobs to be true");
        }
        return wanted ? top : -1;
    }

    private static void refuseUnsupported(RequestFields fields) {
        fields.ignore("user", "parallel_tool_calls", "tool_choice", "store", "metadata", "service_tier");
        fields.field("tool_choice").ifPresent(choice -> {
            if (!choice.isString() || choice.asString().equals("required")) {
                throw RequestException.bad("tool_choice", "tool_choice is " + choice + "; only \"auto\" and \"none\" are supported");
            }
        });
        fields.field("response_format").ifPresent(format -> {
            if (!format.path("type").asString("").equals("text")) {
                throw RequestException.bad("response_format", "response_format " + format + " is not supported; only text is");
            }
        });
        fields.refuseUnless(
                "use_beam_search", !fields.flag("use_beam_search", false), "beam search is not supported; leave use_beam_search out");
    }

    /** The conversation through the model's template, as tokens. */
    static int[] prompt(ServedModel model, RequestFields fields) {
        ChatTemplate template = model.template()
                .orElseThrow(() -> RequestException.bad(
                        "messages", "the model " + model.name() + " has no chat template; use /v1/completions"));
        JsonNode messages = fields.field("messages")
                .orElseThrow(() -> RequestException.bad("messages", "messages is missing; it must be a list of messages"));
        if (!messages.isArray() || messages.isEmpty()) {
            throw RequestFields.wrong("messages", messages, "a list of at least one message");
        }
        List<Map<String, Object>> conversation = new ArrayList<>();
        messages.forEach(message -> conversation.add(message(message)));
        List<Object> tools = new ArrayList<>();
        boolean useTools = !fields.text("tool_choice").orElse("auto").equals("none");
        fields.field("tools").filter(node -> useTools).ifPresent(node -> {
            if (!node.isArray()) {
                throw RequestFields.wrong("tools", node, "a list of tools");
            }
            node.forEach(tool -> tools.add(plain(tool)));
        });
        Map<String, Object> extra = new HashMap<>();
        fields.field("chat_template_kwargs").ifPresent(node -> {
            if (!node.isObject()) {
                throw RequestFields.wrong("chat_template_kwargs", node, "an object");
            }
            node.propertyStream().forEach(entry -> extra.put(entry.getKey(), plain(entry.getValue())));
        });
        boolean addGenerationPrompt = fields.flag("add_generation_prompt", true);
        try {
            String text = template.render(conversation, tools, addGenerationPrompt, extra);
            return model.tokenizer().encode(text, fields.flag("add_special_tokens", false));
        } catch (JinjaException e) {
            String kind = e.isRaisedByTemplate() ? "the chat template refused the messages: " : "the chat template failed: ";
            throw RequestException.bad("messages", kind + e.getMessage());
        }
    }

    private static Map<String, Object> message(JsonNode message) {
        if (!message.isObject() || !message.path("role").isString()) {
            throw RequestFields.wrong("messages", message, "a list of objects with a role");
        }
        Map<String, Object> values = new HashMap<>();
        message.propertyStream().forEach(entry -> values.put(entry.getKey(), plain(entry.getValue())));
        JsonNode content = message.path("content");
        if (content.isArray()) {
            values.put("content", textOf(content));
        } else if (!content.isString() && !content.isNull() && !content.isMissingNode()) {
            throw RequestFields.wrong("messages", content, "a message content that is a string or a list of text parts");
        }
        return values;
    }

    private static String textOf(JsonNode parts) {
        StringBuilder text = new StringBuilder();
        for (JsonNode part : parts) {
            if (!part.path("type").asString("").equals("text") || !part.path("text").isString()) {
                throw RequestFields.wrong("messages", part, "a text part; images and audio are not supported");
            }
            text.append(text.isEmpty() ? "" : "\n").append(part.path("text").asString());
        }
        return text.toString();
    }

    private static Object plain(JsonNode node) {
        return JSON.convertValue(node, Object.class);
    }
}
