package dev.tandem.server.openai;

import dev.tandem.engine.request.RequestException;
import dev.tandem.server.http.Exchange;
import dev.tandem.text.Vocabulary;
import java.util.List;
import java.util.Optional;
import java.util.function.Supplier;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;
import tools.jackson.databind.node.ArrayNode;
import tools.jackson.databind.node.ObjectNode;

/** Serves {@code POST /tokenize} and {@code POST /detokenize}. */
final class TokenizeHandler {
    private static final ObjectMapper JSON = new ObjectMapper();

    /** Fields that have no effect without messages. */
    private static final List<String> CHAT_FIELDS = List.of(
            "add_generation_prompt",
            "continue_final_message",
            "chat_template_kwargs",
            "reasoning_effort",
            "tools",
            "tool_choice");

    private final ServedModel model;
    private final RequestParser parser;
    private final ChatPrompt chat;
    private final PromptReader promptReader;
    private final TokenizerPool pool;

    TokenizeHandler(
            ServedModel model, RequestParser parser, ChatPrompt chat, PromptReader promptReader, TokenizerPool pool) {
        this.model = model;
        this.parser = parser;
        this.chat = chat;
        this.promptReader = promptReader;
        this.pool = pool;
    }

    void tokenize(Exchange exchange) throws InterruptedException {
        answer(exchange, () -> tokens(parser.parse(exchange.body(), ApiFields.Endpoint.TOKENIZE)));
    }

    void detokenize(Exchange exchange) throws InterruptedException {
        answer(exchange, () -> text(parser.parse(exchange.body(), ApiFields.Endpoint.DETOKENIZE)));
    }

    private void answer(Exchange exchange, Supplier<ObjectNode> work) throws InterruptedException {
        exchange.respond(200, "application/json", pool.run(exchange, () -> JSON.writeValueAsBytes(work.get())));
    }

    private ObjectNode tokens(RequestFields fields) {
        ModelName.check(fields, model);
        boolean spellings = fields.flag("return_token_strs", false);
        int[] tokens = encode(fields);
        ObjectNode answer = JSON.createObjectNode();
        answer.put("count", tokens.length);
        answer.put("max_model_len", model.engine().config().contextTokens());
        ArrayNode ids = answer.putArray("tokens");
        for (int token : tokens) {
            ids.add(token);
        }
        if (spellings) {
            ArrayNode strings = answer.putArray("token_strs");
            for (int token : tokens) {
                strings.add(model.tokenizer().vocabulary().token(token));
            }
        } else {
            answer.putNull("token_strs");
        }
        return answer;
    }

    private int[] encode(RequestFields fields) {
        Optional<String> prompt = fields.text("prompt");
        boolean messages = fields.field("messages").isPresent();
        if (prompt.isPresent() == messages) {
            throw RequestException.bad("prompt", "send either prompt or messages");
        }
        if (messages) {
            return chat.read(fields, ToolFields.read(fields, ToolList.CHAT, model), Optional.empty());
        }
        CHAT_FIELDS.stream()
                .filter(name -> fields.field(name).isPresent())
                .findFirst()
                .ifPresent(name -> {
                    throw RequestException.bad(name, name + " needs messages; leave it out with a prompt");
                });
        return promptReader.encode("prompt", prompt.orElseThrow(), fields.flag("add_special_tokens", true));
    }

    private ObjectNode text(RequestFields fields) {
        ModelName.check(fields, model);
        JsonNode list = fields.field("tokens")
                .orElseThrow(() -> RequestException.bad("tokens", "tokens is missing; it must be a list of token ids"));
        if (!list.isArray()) {
            throw RequestFields.wrong("tokens", list, "a list of token ids");
        }
        Vocabulary vocabulary = model.tokenizer().vocabulary();
        int[] tokens = new int[list.size()];
        for (int i = 0; i < tokens.length; i++) {
            tokens[i] = RequestFields.whole("tokens", list.get(i));
            if (tokens[i] < 0 || tokens[i] >= vocabulary.size()) {
                throw RequestException.bad(
                        "tokens", "token id " + tokens[i] + " is not in the vocabulary of " + vocabulary.size());
            }
        }
        return JSON.createObjectNode().put("prompt", model.tokenizer().decode(tokens, false));
    }
}
