package dev.tandem.server.openai;

import dev.tandem.engine.request.RequestException;
import dev.tandem.server.http.Exchange;
import dev.tandem.server.http.Printable;
import dev.tandem.text.ChatTemplate;
import dev.tandem.text.Vocabulary;
import java.util.Locale;
import java.util.stream.IntStream;
import tools.jackson.databind.ObjectMapper;
import tools.jackson.databind.node.ArrayNode;
import tools.jackson.databind.node.ObjectNode;

/** Serves what the server says of its model and tokenizer. */
final class ModelHandler {
    private static final ObjectMapper JSON = new ObjectMapper();

    private final ServedModel model;
    private final long started;

    /** @param started seconds since 1970 at which the model was loaded */
    ModelHandler(ServedModel model, long started) {
        this.model = model;
        this.started = started;
    }

    void list(Exchange exchange) {
        ObjectNode root = JSON.createObjectNode().put("object", "list");
        root.putArray("data").add(entry());
        answer(exchange, root);
    }

    void one(Exchange exchange, String id) {
        if (!id.equals(model.name())) {
            throw RequestException.of(
                    RequestException.Category.NOT_FOUND,
                    "the model '" + Printable.of(id) + "' is not served here; '" + model.name() + "' is");
        }
        answer(exchange, entry());
    }

    private ObjectNode entry() {
        ObjectNode entry = JSON.createObjectNode();
        entry.put("id", model.name())
                .put("object", "model")
                .put("created", started)
                .put("owned_by", "tandem")
                .put("root", model.name())
                .put("max_model_len", model.engine().config().contextTokens());
        entry.putNull("parent");
        return entry;
    }

    void tokenizer(Exchange exchange) {
        Vocabulary vocabulary = model.tokenizer().vocabulary();
        ObjectNode root = JSON.createObjectNode()
                .put("tokenizer_class", vocabulary.spelling().name().toLowerCase(Locale.ROOT))
                .put("vocab_size", vocabulary.size())
                .put("model_max_length", model.engine().config().contextTokens());
        int[] endTokens = model.engine().config().endTokens().stream()
                .mapToInt(Integer::intValue)
                .sorted()
                .toArray();
        // evaluation harnesses need the spelling of one, and take a server without the field for one that has no
        // /tokenize
        root.put("eos_token", endTokens.length == 0 ? null : vocabulary.token(endTokens[0]));
        ArrayNode ends = root.putArray("eos_token_ids");
        IntStream.of(endTokens).forEach(ends::add);
        ObjectNode special = root.putObject("special_tokens");
        vocabulary.special().stream().forEach(id -> special.put(Integer.toString(id), vocabulary.token(id)));
        root.put("chat_template", model.template().map(ChatTemplate::source).orElse(null));
        answer(exchange, root);
    }

    private static void answer(Exchange exchange, ObjectNode node) {
        exchange.respond(200, "application/json", JSON.writeValueAsBytes(node));
    }
}
