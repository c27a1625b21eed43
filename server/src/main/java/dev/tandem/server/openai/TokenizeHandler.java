package dev.tandem.server.openai;

import dev.tandem.engine.request.RequestException;
import dev.tandem.server.http.Exchange;
import dev.tandem.text.Vocabulary;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;
import tools.jackson.databind.node.ArrayNode;
import tools.jackson.databind.node.ObjectNode;

/** {@code POST /tokenize} and {@code POST /detokenize}. */
final class TokenizeHandler {
    private static final ObjectMapper JSON = new ObjectMapper();

    private final ServedModel model;

    TokenizeHandler(ServedModel model) {
        this.model = model;
    }

    void tokenize(Exchange exchange) {
        RequestFields fields = RequestFields.parse(exchange.body());
        ModelName.check(fields, model);
        int[] tokens = fields.field("messages").isPresent()
                ? ChatHandler.prompt(model, fields)
                : model.tokenizer()
                        .encode(
                                fields.text("prompt")
                                        .orElseThrow(() -> RequestException.bad("prompt", "prompt or messages is missing")),
                                fields.flag("add_special_tokens", true));
        ObjectNode answer = JSON.createObjectNode();
        answer.put("count", tokens.length);
        answer.put("max_model_len", model.engine().config().contextTokens());
        ArrayNode ids = answer.putArray("tokens");
        for (int token : tokens) {
            ids.add(token);
        }
        if (fields.flag("return_token_strs", false)) {
            ArrayNode strings = answer.putArray("token_strs");
            for (int token : tokens) {
                strings.add(model.tokenizer().vocabulary().token(token));
            }
        } else {
            answer.putNull("token_strs");
        }
        fields.warnAboutUnknown();
        exchange.respond(200, "application/json", JSON.writeValueAsBytes(answer));
    }

    void detokenize(Exchange exchange) {
        RequestFields fields = RequestFields.parse(exchange.body());
        ModelName.check(fields, model);
        JsonNode list = fields.field("tokens")
                .filter(JsonNode::isArray)
                .orElseThrow(() -> RequestException.bad("tokens", "tokens is missing; it must be a list of token ids"));
        Vocabulary vocabulary = model.tokenizer().vocabulary();
        int[] tokens = new int[list.size()];
        for (int i = 0; i < tokens.length; i++) {
            tokens[i] = RequestFields.whole("tokens", list.get(i));
            if (tokens[i] < 0 || tokens[i] >= vocabulary.size()) {
                throw RequestException.bad(
                        "tokens", "token id " + tokens[i] + " is not in the vocabulary of " + vocabulary.size());
            }
        }
        fields.warnAboutUnknown();
        ObjectNode answer = JSON.createObjectNode().put("prompt", model.tokenizer().decode(tokens, false));
        exchange.respond(200, "application/json", JSON.writeValueAsBytes(answer));
    }
}
