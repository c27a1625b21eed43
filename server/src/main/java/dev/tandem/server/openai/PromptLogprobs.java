package dev.tandem.server.openai;

import dev.tandem.engine.request.RequestException;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.engine.request.TokenLogprobs;
import dev.tandem.engine.sampling.PromptScorer;
import dev.tandem.text.Vocabulary;
import java.util.Optional;
import java.util.OptionalInt;
import tools.jackson.databind.ObjectMapper;
import tools.jackson.databind.node.ArrayNode;
import tools.jackson.databind.node.ObjectNode;

/**
 * The log-probabilities of a prompt that a request asks for.
 *
 * @param echoed alternatives per token that precede the answer's own; -1 when they do not
 * @param listed alternatives per token of {@code prompt_logprobs}; -1 when it is left out
 */
record PromptLogprobs(int echoed, int listed) {
    static final PromptLogprobs NONE = new PromptLogprobs(-1, -1);

    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String ECHO = "echo";
    private static final String LISTED = "prompt_logprobs";

    /**
     * Reads {@code prompt_logprobs}.
     *
     * @param echo whether the prompt precedes the answer
     * @param output what the answer has
     * @param logprobs alternatives per token of the answer; -1 for none
     */
    static PromptLogprobs read(RequestFields fields, boolean echo, AnswerWriter.OutputOptions output, int logprobs) {
        OptionalInt listed = fields.integer(LISTED);
        if (listed.isPresent() && (listed.getAsInt() < 0 || listed.getAsInt() > SamplingParams.MAX_LOGPROBS)) {
            throw RequestException.bad(
                    LISTED,
                    LISTED + " is " + listed.getAsInt() + "; it must lie in [0, " + SamplingParams.MAX_LOGPROBS + "]");
        }
        PromptLogprobs wanted = new PromptLogprobs(echo ? logprobs : -1, listed.orElse(-1));
        if (wanted.isWanted() && output.stream()) {
            throw RequestException.bad(
                    wanted.field(),
                    wanted.field() + " needs log-probabilities of the prompt, which no stream has; leave stream out");
        }
        return wanted;
    }

    private boolean isWanted() {
        return echoed >= 0 || listed >= 0;
    }

    private String field() {
        return listed >= 0 ? LISTED : ECHO;
    }

    /** What the engine scores a prompt with; empty when nobody asks. */
    Optional<PromptScorer> scorer(int[] prompt) {
        return isWanted() ? Optional.of(new PromptScorer(prompt, Math.max(echoed, listed))) : Optional.empty();
    }

    /** {@code prompt_logprobs} as vLLM has it: null for the first token, else an object by token id. */
    ArrayNode list(PromptScorer scorer, Vocabulary vocabulary) {
        ArrayNode list = JSON.createArrayNode();
        int[] prompt = scorer.prompt();
        for (int position = 0; position < prompt.length; position++) {
            Optional<TokenLogprobs> score = scorer.score(position);
            if (score.isEmpty()) {
                list.addNull();
                continue;
            }
            ObjectNode tokens = list.addObject();
            write(tokens, vocabulary, prompt[position], score.get().logprob(), scorer.rank(position));
            int[] top = score.get().topTokens();
            for (int i = 0; i < Math.min(listed, top.length); i++) {
                if (top[i] != prompt[position]) {
                    write(tokens, vocabulary, top[i], score.get().topLogprobs()[i], i + 1);
                }
            }
        }
        return list;
    }

    private static void write(ObjectNode tokens, Vocabulary vocabulary, int token, float logprob, int rank) {
        tokens.putObject(Integer.toString(token))
                .put("logprob", logprob)
                .put("rank", rank)
                .put("decoded_token", Logprobs.text(vocabulary, token));
    }
}
