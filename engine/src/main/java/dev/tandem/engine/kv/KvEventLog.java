package dev.tandem.engine.kv;

import dev.tandem.engine.kv.KvEvent.Cleared;
import dev.tandem.engine.kv.KvEvent.Removed;
import dev.tandem.engine.kv.KvEvent.Stored;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import org.jspecify.annotations.Nullable;

/**
 * Records what enters and leaves the prefix trees of both tiers, until it is taken.
 *
 * <p>Nodes that follow each other become one event, as do nodes that are dropped one after another.
 *
 * <p>Owned by: engine thread.
 */
final class KvEventLog {
    private static final KvEvent CLEARED = new Cleared();

    private final int blockTokens;
    private final TierLog gpu = new TierLog(KvTier.GPU);
    private final TierLog host = new TierLog(KvTier.HOST);
    private List<KvEvent> events = new ArrayList<>();
    /** The last event, which may grow; null when nothing is recorded since the last one ended. */
    private @Nullable Run run;

    /** @param blockTokens tokens of the blocks that events speak of: those of a GPU block */
    KvEventLog(int blockTokens) {
        this.blockTokens = blockTokens;
    }

    /** The part for the tree of one tier. */
    TierLog of(KvTier tier) {
        return switch (tier) {
            case GPU -> gpu;
            case HOST -> host;
        };
    }

    /** Both trees are empty now; what was recorded before tells nobody anything. */
    void cleared() {
        events.clear();
        run = null;
        gpu.holders.clear();
        host.holders.clear();
        events.add(CLEARED);
    }

    /** The events since the last call. */
    List<KvEvent> take() {
        endRun();
        if (events.isEmpty()) {
            return List.of();
        }
        List<KvEvent> taken = events;
        events = new ArrayList<>();
        return taken;
    }

    private void endRun() {
        if (run != null) {
            events.add(run.event(blockTokens));
            run = null;
        }
    }

    /** What enters and leaves the tree of one tier. */
    final class TierLog {
        private final KvTier tier;
        /**
         * Nodes per hash, where a node is several blocks of an event: siblings may begin with the same blocks, which
         * enter with the first of them and leave with the last.
         */
        private final Map<Long, Integer> holders = new HashMap<>();

        private TierLog(KvTier tier) {
            this.tier = tier;
        }

        void added(PrefixNode node) {
            long[] hashes = hashes(node);
            int known = 0;
            for (int i = 0; i < hashes.length && hashes.length > 1; i++) {
                known += holders.merge(hashes[i], 1, Integer::sum) > 1 ? 1 : 0;
            }
            PrefixNode before = node.previous();
            OptionalLong parent = known > 0
                    ? OptionalLong.of(hashes[known - 1])
                    : before == null ? OptionalLong.empty() : OptionalLong.of(before.hash);
            StoredRun stored = run instanceof StoredRun last && last.isFollowedBy(tier, parent) ? last : null;
            if (stored == null) {
                endRun();
                stored = new StoredRun(tier, parent, node.salt());
                run = stored;
            }
            stored.add(hashes, known, node.tokens, known * blockTokens);
        }

        /** Records a node that was dropped; its children come before it. */
        void dropped(PrefixNode node) {
            RemovedRun removed = run instanceof RemovedRun last && last.tier == tier ? last : null;
            if (removed == null) {
                endRun();
                removed = new RemovedRun(tier);
                run = removed;
            }
            long[] hashes = hashes(node);
            for (int i = hashes.length - 1; i >= 0; i--) {
                boolean held = hashes.length > 1 && holders.merge(hashes[i], -1, KvEventLog::sumOrNone) != null;
                if (!held) {
                    removed.add(hashes[i]);
                }
            }
        }

        /** [blocks of the node] the hash of all tokens up to the end of each. */
        private long[] hashes(PrefixNode node) {
            long[] hashes = new long[node.tokens.length / blockTokens];
            long hash = node.parent == null ? 0 : node.parent.hash;
            for (int i = 0; i < hashes.length - 1; i++) {
                hash = PrefixHashes.chain(hash, node.tokens, i * blockTokens, (i + 1) * blockTokens);
                hashes[i] = hash;
            }
            hashes[hashes.length - 1] = node.hash;
            return hashes;
        }
    }

    private static @Nullable Integer sumOrNone(int left, int change) {
        return left + change == 0 ? null : left + change;
    }

    /** An event that may grow. */
    private sealed interface Run {
        KvEvent event(int blockTokens);
    }

    private static final class StoredRun implements Run {
        private final KvTier tier;
        private final OptionalLong parent;
        private final String salt;
        private long[] hashes = {};
        private int[] tokens = {};
        private int blocks;
        private int tokenCount;

        StoredRun(KvTier tier, OptionalLong parent, String salt) {
            this.tier = tier;
            this.parent = parent;
            this.salt = salt;
        }

        boolean isFollowedBy(KvTier next, OptionalLong nextParent) {
            return next == tier && nextParent.isPresent() && nextParent.getAsLong() == hashes[blocks - 1];
        }

        /** Adds the blocks of a node from {@code firstBlock} and {@code firstToken} on. */
        void add(long[] nodeHashes, int firstBlock, int[] nodeTokens, int firstToken) {
            int moreBlocks = nodeHashes.length - firstBlock;
            int moreTokens = nodeTokens.length - firstToken;
            if (blocks + moreBlocks > hashes.length) {
                hashes = Arrays.copyOf(hashes, 2 * blocks + moreBlocks);
                tokens = Arrays.copyOf(tokens, 2 * tokenCount + moreTokens);
            }
            System.arraycopy(nodeHashes, firstBlock, hashes, blocks, moreBlocks);
            System.arraycopy(nodeTokens, firstToken, tokens, tokenCount, moreTokens);
            blocks += moreBlocks;
            tokenCount += moreTokens;
        }

        @Override
        public KvEvent event(int blockTokens) {
            return new Stored(
                    tier, Arrays.copyOf(hashes, blocks), parent, Arrays.copyOf(tokens, tokenCount), blockTokens, salt);
        }
    }

    private static final class RemovedRun implements Run {
        private final KvTier tier;
        private long[] hashes = new long[4];
        private int count;

        RemovedRun(KvTier tier) {
            this.tier = tier;
        }

        void add(long hash) {
            if (count == hashes.length) {
                hashes = Arrays.copyOf(hashes, 2 * count);
            }
            hashes[count++] = hash;
        }

        @Override
        public KvEvent event(int blockTokens) {
            return new Removed(tier, Arrays.copyOf(hashes, count));
        }
    }
}
