package dev.tandem.engine.kv;

import dev.tandem.engine.request.Sequence;

/**
 * Chain hashes of prefixes: each is of a cache salt and of all tokens up to a position.
 *
 * <p>Those of a prompt are computed once and kept in the sequence's {@link BlockTable}. Blocks of both tiers use the
 * same hashes, because a host block holds a whole number of GPU blocks.
 *
 * <p>Owned by: engine thread.
 */
final class PrefixHashes {
    private final int blockTokens;
    private final long seed;

    /**
     * Creates hashes.
     *
     * @param blockTokens tokens between two hashes that are kept
     * @param seed so that no client can foresee collisions
     */
    PrefixHashes(int blockTokens, long seed) {
        this.blockTokens = blockTokens;
        this.seed = seed;
    }

    /** Tokens between two hashes that are kept. */
    int blockTokens() {
        return blockTokens;
    }

    /** The hash of a salt's empty prefix. */
    long root(String salt) {
        long hash = seed;
        for (int i = 0; i < salt.length(); i++) {
            hash = mix(hash, salt.charAt(i));
        }
        return mix(hash, salt.length());
    }

    /** The hash of a sequence's first {@code to} tokens; {@code hash} is that of its first {@code from} tokens. */
    long extended(long hash, Sequence sequence, int from, int to) {
        long[] prompt = ofPrompt(sequence);
        int index = to / blockTokens - 1;
        return index < prompt.length ? prompt[index] : chain(hash, sequence, from, to);
    }

    /** [full blocks of the prompt] the hash of all tokens up to the end of each; the array is not to be changed. */
    long[] ofPrompt(Sequence sequence) {
        BlockTable table = sequence.table();
        long[] known = table.promptHashes();
        if (known == null) {
            known = new long[sequence.request().prompt().length / blockTokens];
            long hash = root(sequence.request().caching().salt());
            for (int i = 0; i < known.length; i++) {
                hash = chain(hash, sequence, i * blockTokens, (i + 1) * blockTokens);
                known[i] = hash;
            }
            table.promptHashes(known);
        }
        return known;
    }

    private static long chain(long start, Sequence sequence, int from, int to) {
        long hash = start;
        for (int i = from; i < to; i++) {
            hash = mix(hash, sequence.token(i));
        }
        return hash;
    }

    /** The hash of a prefix with further tokens; {@code hash} is that of the prefix. */
    static long chain(long hash, int[] tokens, int from, int to) {
        long next = hash;
        for (int i = from; i < to; i++) {
            next = mix(next, tokens[i]);
        }
        return next;
    }

    /** One round of a multiplicative hash with folding, so that every bit of both values reaches the low bits. */
    private static long mix(long hash, int value) {
        long x = (hash ^ value) * 0x9E3779B97F4A7C15L;
        return x ^ x >>> 29;
    }
}
