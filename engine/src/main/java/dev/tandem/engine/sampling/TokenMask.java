package dev.tandem.engine.sampling;

import java.util.Arrays;
import java.util.BitSet;
import java.util.List;
import java.util.Optional;

/**
 * Excludes tokens from an output, whatever else the output must match.
 *
 * <p>Owned by: any thread, immutable.
 */
public final class TokenMask implements Grammar {
    private final Optional<BitSet> allowed;
    private final List<int[]> banned;
    private final Optional<Grammar> inner;

    /**
     * A mask.
     *
     * @param allowed the only tokens that the output may have; empty for all
     * @param banned sequences of at least one token that the output may not contain
     */
    public TokenMask(Optional<BitSet> allowed, List<int[]> banned) {
        this(allowed.map(bits -> (BitSet) bits.clone()), List.copyOf(banned), Optional.empty());
    }

    private TokenMask(Optional<BitSet> allowed, List<int[]> banned, Optional<Grammar> inner) {
        this.allowed = allowed;
        this.banned = banned;
        this.inner = inner;
    }

    /** The same mask over an output that must match a grammar too. */
    public TokenMask over(Grammar grammar) {
        return new TokenMask(allowed, banned, Optional.of(grammar));
    }

    @Override
    public boolean decidesEnd() {
        return inner.filter(Grammar::decidesEnd).isPresent();
    }

    @Override
    public GrammarMatcher matcher() {
        return new Matcher(inner.map(Grammar::matcher));
    }

    /** Follows one output. */
    private final class Matcher implements GrammarMatcher {
        private final Optional<GrammarMatcher> of;
        /** The last tokens of the output, as many as a banned sequence can have before its last. */
        private final int[] tail = new int
                [Math.max(
                        0,
                        banned.stream()
                                        .mapToInt(sequence -> sequence.length)
                                        .max()
                                        .orElse(1)
                                - 1)];

        private int length;
        private boolean closed;

        Matcher(Optional<GrammarMatcher> of) {
            this.of = of;
        }

        @Override
        public boolean allows(int token) {
            return (closed || isAllowed(token))
                    && of.map(matcher -> matcher.allows(token)).orElse(true);
        }

        private boolean isAllowed(int token) {
            return allowed.map(bits -> bits.get(token)).orElse(true)
                    && banned.stream()
                            .noneMatch(sequence -> sequence[sequence.length - 1] == token && endsWithStartOf(sequence));
        }

        @Override
        public void prepareBitmask() {
            of.ifPresent(GrammarMatcher::prepareBitmask);
        }

        @Override
        public void fillBitmask(int[] bitmask) {
            of.ifPresentOrElse(matcher -> matcher.fillBitmask(bitmask), () -> Arrays.fill(bitmask, -1));
            if (closed) {
                return;
            }
            allowed.ifPresent(bits -> {
                long[] words = bits.toLongArray();
                for (int i = 0; i < bitmask.length; i++) {
                    bitmask[i] &= i / 2 < words.length ? (int) (words[i / 2] >>> 32 * (i % 2)) : 0;
                }
            });
            for (int[] sequence : banned) {
                int last = sequence[sequence.length - 1];
                if (last / 32 < bitmask.length && endsWithStartOf(sequence)) {
                    bitmask[last / 32] &= ~(1 << last);
                }
            }
        }

        /** Whether the output ends with all tokens of the sequence but its last. */
        private boolean endsWithStartOf(int[] sequence) {
            int start = sequence.length - 1;
            return length >= start && Arrays.equals(tail, tail.length - start, tail.length, sequence, 0, start);
        }

        @Override
        public void accept(int token) {
            of.ifPresent(matcher -> matcher.accept(token));
            if (tail.length > 0) {
                System.arraycopy(tail, 1, tail, 0, tail.length - 1);
                tail[tail.length - 1] = token;
            }
            length++;
        }

        @Override
        public void close() {
            closed = true;
            of.ifPresent(GrammarMatcher::close);
        }
    }
}
