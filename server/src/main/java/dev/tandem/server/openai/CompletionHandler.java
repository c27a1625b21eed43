package dev.tandem.server.openai;

import dev.tandem.engine.request.LatencyTargets;
import dev.tandem.engine.request.Request;
import dev.tandem.engine.request.RequestException;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.server.http.Exchange;
import java.util.ArrayList;
import java.util.List;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.node.ObjectNode;

/** {@code POST /v1/completions}. */
final class CompletionHandler {
    private static final int DEFAULT_MAX_TOKENS = 16;
    private static final int MOST_PROMPTS = 1024;

    private static final AnswerWriter.Shape SHAPE = new AnswerWriter.Shape() {
        @Override
        public String object(boolean stream) {
            return "text_completion";
        }

        @Override
        public void writePiece(ObjectNode choice, String text) {
            choice.put("text", text);
        }

        @Override
        public void writeEnd(ObjectNode choice) {
            choice.put("text", "");
        }

        @Override
        public void writeWhole(ObjectNode choice, String text) {
            choice.put("text", text);
        }

        @Override
        public void writeLogprobs(ObjectNode choice, Logprobs logprobs) {
            logprobs.writeCompletion(choice);
        }
    };

    /** @param text what {@code echo} gives back */
    private record Prompt(int[] tokens, String text) {}

    private final ServedModel model;

    CompletionHandler(ServedModel model) {
        this.model = model;
    }

    void serve(Exchange exchange, String requestId, long created) throws InterruptedException {
        RequestFields fields = RequestFields.parse(exchange.body());
        ModelName.check(fields, model);
        boolean echo = fields.flag("echo", false);
        List<Prompt> prompts = prompts(fields, echo);
        int n = SamplingFields.choices(fields);
        int maxTokens = fields.integer("max_tokens", DEFAULT_MAX_TOKENS);
        SamplingParams sampling =
                SamplingFields.read(fields, model.defaults(), maxTokens, fields.integer("logprobs", -1));
        AnswerWriter.Wishes wishes = StreamFields.read(fields, sampling.logprobs() >= 0);
        if (echo && wishes.logprobs()) {
            throw RequestException.bad("echo", "echo together with logprobs is not supported; leave one of them out");
        }
        boolean skipSpecial = fields.flag("skip_special_tokens", true);
        int priority = fields.integer("priority", 0);
        LatencyTargets targets = SamplingFields.targets(fields);
        fields.ignore("user", "best_of");
        fields.refuseUnless("suffix", false, "suffix is not supported; leave it out");
        fields.refuseUnless(
                "best_of", fields.integer("best_of", n) == n, "best_of is only supported when it equals n, which is " + n);
        fields.refuseUnless(
                "use_beam_search", !fields.flag("use_beam_search", false), "beam search is not supported; leave use_beam_search out");
        fields.warnAboutUnknown();
        String id = "cmpl-" + requestId;
        int count = prompts.size() * n;
        int promptTokens = prompts.stream().mapToInt(prompt -> prompt.tokens().length).sum();
        AnswerWriter writer = new AnswerWriter(id, created, model, SHAPE, wishes, count, promptTokens);
        for (int i = 0; echo && i < count; i++) {
            writer.prefix(i, prompts.get(i / n).text());
        }
        try (Generation generation = Generation.start(model.engine(), exchange, count, (index, sink) -> new Request(
                id + "-" + index,
                prompts.get(index / n).tokens(),
                n == 1 ? sampling : sampling.forChoice(index % n),
                priority,
                targets,
                model.decoder(skipSpecial),
                sink))) {
            writer.write(exchange, generation);
        }
    }

    private List<Prompt> prompts(RequestFields fields, boolean echo) {
        JsonNode node = fields.field("prompt")
                .orElseThrow(() -> RequestException.bad(
                        "prompt", "prompt is missing; it must be a string, a list of strings, token ids, or lists of token ids"));
        boolean addSpecial = fields.flag("add_special_tokens", true);
        List<Prompt> prompts = new ArrayList<>();
        if (node.isString()) {
            prompts.add(fromText(node.asString(), addSpecial));
        } else if (node.isArray() && !node.isEmpty() && node.get(0).isIntegralNumber()) {
            prompts.add(fromTokens(node, echo));
        } else if (node.isArray() && !node.isEmpty() && node.size() <= MOST_PROMPTS) {
            for (JsonNode item : node) {
                prompts.add(item.isArray() ? fromTokens(item, echo) : fromText(RequestFields.string("prompt", item), addSpecial));
            }
        } else {
            throw RequestFields.wrong(
                    "prompt", node, "a string, a list of at most " + MOST_PROMPTS + " strings, token ids, or lists of token ids");
        }
        return prompts;
    }

    private Prompt fromText(String text, boolean addSpecial) {
        return new Prompt(model.tokenizer().encode(text, addSpecial), text);
    }

    private Prompt fromTokens(JsonNode list, boolean echo) {
        int[] tokens = new int[list.size()];
        for (int i = 0; i < tokens.length; i++) {
            tokens[i] = RequestFields.whole("prompt", list.get(i));
        }
        return new Prompt(tokens, echo ? model.tokenizer().decode(tokens, false) : "");
    }
}
