package dev.tandem.engine.step;

import dev.tandem.engine.sampling.TokenSampler;
import java.util.Optional;

/**
 * Consecutive tokens of one sequence: one token when it decodes, more when it prefills. Their KV is appended and they
 * attend over positions {@code [0, own position]}.
 *
 * @param sequence key of the sequence
 * @param start position of the first token
 * @param tokens [rows] token ids; {@link #PLACEHOLDER} for one that the step before samples, which may be running
 * @param blocks cover positions {@code [0, start + rows)} in {@code site.tier()}
 * @param sampler present when the last row's logits yield the next token
 */
public record Chunk(
        long sequence, int start, int[] tokens, int[] blocks, AttentionSite site, Optional<TokenSampler> sampler) {
    /** Stands for a token that nobody but the device knows yet. */
    public static final int PLACEHOLDER = -1;

    public int rows() {
        return tokens.length;
    }

    public boolean decodes() {
        return tokens.length == 1 && start > 0 && sampler.isPresent();
    }
}
