package dev.tandem.engine.step;

import dev.tandem.engine.kv.KvView;
import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.sampling.PromptScorer;
import dev.tandem.engine.sampling.TokenSampler;
import java.util.List;
import java.util.Optional;

/**
 * Consecutive tokens of one sequence: one token for a decode, more for a prefill.
 *
 * <p>The step appends their KV. Each token attends to positions up to its own, from the start of the layer's window on.
 *
 * @param sequence key of the sequence
 * @param start position of the first token
 * @param tokens [rows] token ids; {@link #PLACEHOLDER} for a token that the step before samples, which may still run
 * @param kv [groups of layers] blocks of {@code site.tier()} that cover all positions up to {@code start + rows} that
 *     the tokens attend to
 * @param site who computes their attention
 * @param sampler present when the last token's logits yield the next token
 * @param scorer present when the logits of its tokens score the prompt
 */
public record Chunk(
        long sequence,
        int start,
        int[] tokens,
        List<KvView> kv,
        AttentionSite site,
        Optional<TokenSampler> sampler,
        Optional<PromptScorer> scorer) {
    /** Stands for a token whose value only the device knows yet, as in {@link Sequence#PLACEHOLDER}. */
    public static final int PLACEHOLDER = Sequence.PLACEHOLDER;

    /** A chunk that scores nothing. */
    public Chunk(
            long sequence,
            int start,
            int[] tokens,
            List<KvView> kv,
            AttentionSite site,
            Optional<TokenSampler> sampler) {
        this(sequence, start, tokens, kv, site, sampler, Optional.empty());
    }

    /** A chunk that scores nothing, of a sequence that holds all of its blocks in the one group of layers. */
    public Chunk(
            long sequence, int start, int[] tokens, int[] blocks, AttentionSite site, Optional<TokenSampler> sampler) {
        this(sequence, start, tokens, List.of(KvView.of(blocks)), site, sampler);
    }

    /** The blocks of one group of layers. */
    public KvView kv(int group) {
        return kv.get(group);
    }

    /** Whether the logits of a token are wanted: the sampler's of the last one, and the scorer's. */
    public boolean wantsLogits(int row) {
        return row == tokens.length - 1 && sampler.isPresent() || scores(row);
    }

    /** Whether the logits of a token score the prompt. */
    public boolean scores(int row) {
        return scorer.isPresent() && scorer.get().wants(start + row);
    }

    /** Number of tokens. */
    public int rows() {
        return tokens.length;
    }

    /** True for a decode: one token whose context is computed and which yields the next. */
    public boolean decodes() {
        return tokens.length == 1 && start > 0 && sampler.isPresent();
    }
}
