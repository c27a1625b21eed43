package dev.tandem.engine.kv;

import java.util.Arrays;

/**
 * The KV blocks of one sequence as a plan keeps them, in token order. With a sliding window, blocks before it are gone.
 *
 * @param first index of the first block that is there; {@code blocks[0]} holds the tokens from {@code first} times the
 *     tokens per block on
 * @param blocks never changed; plans of several steps may share the array
 */
public record KvView(int first, int[] blocks) {
    /** A view of a sequence that holds all of its blocks. */
    public static KvView of(int... blocks) {
        return new KvView(0, blocks);
    }

    /** The block that holds the {@code index}-th run of tokens of the sequence, which must not lie before the first. */
    public int block(int index) {
        return blocks[index - first];
    }

    /** The index after the last block. */
    public int end() {
        return first + blocks.length;
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof KvView view && first == view.first && Arrays.equals(blocks, view.blocks);
    }

    @Override
    public int hashCode() {
        return 31 * first + Arrays.hashCode(blocks);
    }

    @Override
    public String toString() {
        return first + ":" + Arrays.toString(blocks);
    }
}
