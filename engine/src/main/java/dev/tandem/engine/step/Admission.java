package dev.tandem.engine.step;

import dev.tandem.engine.kv.KvView;
import dev.tandem.engine.sampling.TokenSampler;
import java.util.List;

/**
 * A host token that enters layer 0 and becomes an in-flight token: it advances layer by layer as its attention results
 * return, possibly over several steps (async overlap, APEX §3.3). Its block is granted before it enters.
 *
 * @param sequence key of the sequence
 * @param position of the token, whose KV is appended at every layer
 * @param token its id, or {@link Chunk#PLACEHOLDER}
 * @param kv [groups of layers] host blocks that cover all positions up to {@code position} that the token attends to
 * @param sampler chooses the next token
 */
public record Admission(long sequence, int position, int token, List<KvView> kv, TokenSampler sampler) {
    /** The token of a sequence that holds all of its blocks in the one group of layers. */
    public Admission(long sequence, int position, int token, int[] blocks, TokenSampler sampler) {
        this(sequence, position, token, List.of(KvView.of(blocks)), sampler);
    }

    /** The blocks of one group of layers. */
    public KvView kv(int group) {
        return kv.get(group);
    }
}
