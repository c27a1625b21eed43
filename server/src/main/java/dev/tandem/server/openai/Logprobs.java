package dev.tandem.server.openai;

import dev.tandem.engine.request.TokenLogprobs;
import dev.tandem.engine.sampling.PromptScorer;
import dev.tandem.text.Vocabulary;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import tools.jackson.databind.node.ArrayNode;
import tools.jackson.databind.node.ObjectNode;

/**
 * Log-probabilities of one choice, in the formats of OpenAI's two endpoints.
 *
 * <p>Owned by: the request's virtual thread.
 */
final class Logprobs {
    /** @param values empty for the first token of a prompt, which follows nothing */
    private record Entry(int token, Optional<TokenLogprobs> values, int textOffset) {}

    private final Vocabulary vocabulary;
    private final List<Entry> entries = new ArrayList<>();

    Logprobs(Vocabulary vocabulary) {
        this.vocabulary = vocabulary;
    }

    void add(int token, TokenLogprobs values, int textOffset) {
        entries.add(new Entry(token, Optional.of(values), textOffset));
    }

    void clear() {
        entries.clear();
    }

    private String text(int token) {
        return text(vocabulary, token);
    }

    static String text(Vocabulary vocabulary, int token) {
        return new String(vocabulary.bytes(token), StandardCharsets.UTF_8);
    }

    /**
     * Puts the prompt before the answer.
     *
     * @param alternatives per token, of which the scorer may have more
     */
    void prepend(PromptScorer scorer, int alternatives) {
        int[] prompt = scorer.prompt();
        int offset = 0;
        List<Entry> before = new ArrayList<>();
        for (int position = 0; position < prompt.length; position++) {
            before.add(new Entry(
                    prompt[position], scorer.score(position).map(score -> first(score, alternatives)), offset));
            offset += text(prompt[position]).length();
        }
        entries.addAll(0, before);
    }

    private static TokenLogprobs first(TokenLogprobs score, int alternatives) {
        int count = Math.min(alternatives, score.topTokens().length);
        return new TokenLogprobs(
                score.logprob(), Arrays.copyOf(score.topTokens(), count), Arrays.copyOf(score.topLogprobs(), count));
    }

    /** Writes {@code {"content": [{token, logprob, bytes, top_logprobs}]}}. */
    void writeChat(ObjectNode choice) {
        ArrayNode content = choice.putObject("logprobs").putArray("content");
        for (Entry entry : entries) {
            TokenLogprobs values = entry.values().orElseThrow(); // chat has no echo
            ObjectNode item = content.addObject();
            describe(item, entry.token(), values.logprob());
            ArrayNode top = item.putArray("top_logprobs");
            for (int i = 0; i < values.topTokens().length; i++) {
                describe(top.addObject(), values.topTokens()[i], values.topLogprobs()[i]);
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
            offsets.add(entry.textOffset());
            if (entry.values().isEmpty()) {
                chosen.addNull();
                top.addNull();
                continue;
            }
            TokenLogprobs values = entry.values().get();
            chosen.add(values.logprob());
            ObjectNode alternatives = top.addObject();
            alternatives.put(text(entry.token()), values.logprob());
            for (int i = 0; i < values.topTokens().length; i++) {
                alternatives.put(text(values.topTokens()[i]), values.topLogprobs()[i]);
            }
        }
    }
}
