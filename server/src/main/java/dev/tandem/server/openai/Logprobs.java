package dev.tandem.server.openai;

import dev.tandem.engine.request.TokenLogprobs;
import dev.tandem.text.Vocabulary;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import tools.jackson.databind.node.ArrayNode;
import tools.jackson.databind.node.ObjectNode;

/**
 * Log-probabilities of one choice, in the formats of OpenAI's two endpoints.
 *
 * <p>Owned by: the request's virtual thread.
 */
final class Logprobs {
    private record Entry(int token, TokenLogprobs values, int textOffset) {}

    private final Vocabulary vocabulary;
    private final List<Entry> entries = new ArrayList<>();

    Logprobs(Vocabulary vocabulary) {
        this.vocabulary = vocabulary;
    }

    void add(int token, TokenLogprobs values, int textOffset) {
        entries.add(new Entry(token, values, textOffset));
    }

    void clear() {
        entries.clear();
    }

    private String text(int token) {
        return new String(vocabulary.bytes(token), StandardCharsets.UTF_8);
    }

    /** Writes {@code {"content": [{token, logprob, bytes, top_logprobs}]}}. */
    void writeChat(ObjectNode choice) {
        ArrayNode content = choice.putObject("logprobs").putArray("content");
        for (Entry entry : entries) {
            ObjectNode item = content.addObject();
            describe(item, entry.token(), entry.values().logprob());
            ArrayNode top = item.putArray("top_logprobs");
            for (int i = 0; i < entry.values().topTokens().length; i++) {
                describe(
                        top.addObject(),
                        entry.values().topTokens()[i],
                        entry.values().topLogprobs()[i]);
            }
        }
    }

    private void describe(ObjectNode item, int token, float logprob) {
        item.put("token", text(token));
        item.put("logprob", logprob);
        ArrayNode bytes = item.putArray("bytes");
        for (byte b : vocabulary.bytes(token)) {
            bytes.add(b & 0xFF);
        }
    }

    /** Writes {@code {tokens, token_logprobs, top_logprobs, text_offset}}. */
    void writeCompletion(ObjectNode choice) {
        ObjectNode logprobs = choice.putObject("logprobs");
        ArrayNode tokens = logprobs.putArray("tokens");
        ArrayNode chosen = logprobs.putArray("token_logprobs");
        ArrayNode top = logprobs.putArray("top_logprobs");
        ArrayNode offsets = logprobs.putArray("text_offset");
        for (Entry entry : entries) {
            tokens.add(text(entry.token()));
            chosen.add(entry.values().logprob());
            offsets.add(entry.textOffset());
            ObjectNode alternatives = top.addObject();
            alternatives.put(text(entry.token()), entry.values().logprob());
            for (int i = 0; i < entry.values().topTokens().length; i++) {
                alternatives.put(
                        text(entry.values().topTokens()[i]), entry.values().topLogprobs()[i]);
            }
        }
    }
}
