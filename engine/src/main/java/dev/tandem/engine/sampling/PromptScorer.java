package dev.tandem.engine.sampling;

import dev.tandem.engine.request.TokenLogprobs;
import java.util.Optional;

/**
 * The log-probabilities of a prompt's tokens, each given the tokens before it.
 *
 * <p>The executor scores each row of the prompt, in any order and maybe more than once: a sequence that was preempted
 * computes its prompt again.
 *
 * <p>Owned by: the executor until the request's first event, then whoever receives the event. Threads of the executor
 * score different positions.
 */
public final class PromptScorer {
    private final int[] prompt;
    private final int alternatives;
    private final TokenLogprobs[] scores;
    private final int[] ranks;

    /**
     * Creates a scorer without scores.
     *
     * @param prompt token ids
     * @param alternatives most probable tokens that are reported per position
     */
    public PromptScorer(int[] prompt, int alternatives) {
        this.prompt = prompt.clone();
        this.alternatives = alternatives;
        this.scores = new TokenLogprobs[prompt.length];
        this.ranks = new int[prompt.length];
    }

    /** The prompt's token ids. */
    public int[] prompt() {
        return prompt.clone();
    }

    /** The prompt's token at a position. */
    public int token(int position) {
        return prompt[position];
    }

    /** Most probable tokens that are reported per position. */
    public int alternatives() {
        return alternatives;
    }

    /** Whether the logits at a position score a token of the prompt: those of the last one score the output. */
    public boolean wants(int position) {
        return position + 1 < prompt.length;
    }

    /**
     * Scores the token that follows a position.
     *
     * @param position in the prompt, for which {@link #wants} is true
     * @param logits one row of at least {@code vocabulary} values from {@code offset}
     * @throws SamplingException when a logit is NaN or infinite
     */
    public void score(int position, float[] logits, int offset, int vocabulary, SamplingScratch scratch) {
        TokenSampler.requireFinite(logits, offset, vocabulary);
        TokenLogprobs raw = TokenSampler.rawLogprobs(logits, offset, vocabulary, alternatives, scratch);
        float own = logits[offset + prompt[position + 1]];
        int better = 0;
        for (int i = offset; i < offset + vocabulary; i++) {
            better += logits[i] > own ? 1 : 0;
        }
        float logprob = (float) (own - scratch.logSumExp());
        scored(position, new TokenLogprobs(logprob, raw.topTokens(), raw.topLogprobs()), better + 1);
    }

    /**
     * Takes the score of the token that follows a position, which a device has computed.
     *
     * @param position in the prompt, for which {@link #wants} is true
     * @param score its log-probability, and the most probable tokens with theirs
     * @param rank as {@link #rank}
     */
    public void scored(int position, TokenLogprobs score, int rank) {
        scores[position + 1] = score;
        ranks[position + 1] = rank;
    }

    /** The score of the token at a position; empty for the first, which follows nothing. */
    public Optional<TokenLogprobs> score(int position) {
        return Optional.ofNullable(scores[position]);
    }

    /** How many tokens are at least as probable as the one at a position, itself included if no other ties; from 1. */
    public int rank(int position) {
        return ranks[position];
    }
}
