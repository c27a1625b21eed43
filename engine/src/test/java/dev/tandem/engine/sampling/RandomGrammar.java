package dev.tandem.engine.sampling;

import java.util.Arrays;
import java.util.SplittableRandom;

/**
 * A grammar that allows a random tenth of the tokens after each token, the same for equal seeds. Its matchers check
 * what they are given.
 */
public final class RandomGrammar implements Grammar {
    private final long seed;
    private final int vocabulary;
    /** Matchers that are not closed. */
    public int open;
    /** Bitmasks that were computed. */
    public int bitmasks;

    public RandomGrammar(long seed, int vocabulary) {
        this.seed = seed;
        this.vocabulary = vocabulary;
    }

    /** Whether the output follows the grammar. */
    public boolean matches(Iterable<Integer> output) {
        long state = seed;
        for (int token : output) {
            if (!follows(state, token)) {
                return false;
            }
            state = after(state, token);
        }
        return true;
    }

    private static long after(long state, int token) {
        return new SplittableRandom(state + token).nextLong();
    }

    /** One token is always allowed. */
    private boolean follows(long state, int token) {
        return token < vocabulary
                && (new SplittableRandom(state ^ token).nextInt(10) == 0 || token == Math.floorMod(state, vocabulary));
    }

    @Override
    public GrammarMatcher matcher() {
        open++;
        return new GrammarMatcher() {
            private long state = seed;
            private boolean closed;

            @Override
            public boolean allows(int token) {
                return closed || follows(state, token);
            }

            @Override
            public void fillBitmask(int[] bitmask) {
                bitmasks++;
                Arrays.fill(bitmask, closed ? -1 : 0);
                for (int token = 0; token < vocabulary && !closed; token++) {
                    bitmask[token / 32] |= (follows(state, token) ? 1 : 0) << token;
                }
            }

            @Override
            public void accept(int token) {
                if (!closed && !follows(state, token)) {
                    throw new SamplingException("token " + token + " is not allowed");
                }
                state = after(state, token);
            }

            @Override
            public void close() {
                open -= closed ? 0 : 1;
                closed = true;
            }
        };
    }
}
