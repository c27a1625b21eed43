package dev.tandem.engine.kv;

import dev.tandem.engine.kv.KvEvent.Cleared;
import dev.tandem.engine.kv.KvEvent.Removed;
import dev.tandem.engine.kv.KvEvent.Stored;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import org.jspecify.annotations.Nullable;

/**
 * Records what enters and leaves the prefix trees of both tiers, until it is taken.
 *
 * <p>Nodes that follow each other become one event, as do nodes that are dropped one after another. Events of one tier
 * and the same layers are in the order in which they happened.
 *
 * <p>Owned by: engine thread.
 */
final class KvEventLog {
    private static final KvEvent CLEARED = new Cleared();

    private final int blockTokens;
    private final TierLog gpu;
    private final TierLog host;
    private List<KvEvent> events = new ArrayList<>();

    /**
     * Creates an empty log.
     *
     * @param blockTokens tokens of the blocks that events speak of: those of a GPU block
     * @param layout the windows of the layers
     */
    KvEventLog(int blockTokens, KvLayout layout) {
        this.blockTokens = blockTokens;
        this.gpu = new TierLog(KvTier.GPU, layout);
        this.host = new TierLog(KvTier.HOST, layout);
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
        gpu.clear();
        host.clear();
        events.add(CLEARED);
    }

    /** The events since the last call. */
    List<KvEvent> take() {
        gpu.endRuns();
        host.endRuns();
        if (events.isEmpty()) {
            return List.of();
        }
        List<KvEvent> taken = events;
        events = new ArrayList<>();
        return taken;
    }

    /** What enters and leaves the tree of one tier. */
    final class TierLog {
        private final List<GroupLog> logs = new ArrayList<>();

        private TierLog(KvTier tier, KvLayout layout) {
            boolean one = layout.kinds().size() == 1;
            for (KvLayout.Kind kind : layout.kinds()) {
                KvEvent.Group group =
                        new KvEvent.Group(kind.first(), kind.window().tokens());
                logs.add(new GroupLog(tier, kind.first(), one ? Optional.empty() : Optional.of(group)));
            }
        }

        void added(PrefixNode node) {
            long[] hashes = hashes(node);
            for (GroupLog log : logs) {
                if (log.tellsOf(node)) {
                    log.added(node, hashes);
                }
            }
        }

        /** Records that a node has got the block of a group that it lacked. */
        void filled(PrefixNode node, int group) {
            for (GroupLog log : logs) {
                if (log.firstGroup == group && log.tellsOf(node)) {
                    log.added(node, hashes(node));
                }
            }
        }

        /** Records a node that was dropped; its children come before it. */
        void dropped(PrefixNode node) {
            long[] hashes = hashes(node);
            for (GroupLog log : logs) {
                if (log.tellsOf(node)) {
                    log.dropped(hashes);
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

        private void endRuns() {
            logs.forEach(GroupLog::endRun);
        }

        private void clear() {
            logs.forEach(GroupLog::clear);
        }
    }

    /** What enters and leaves the tree of one tier in the layers with one window. */
    private final class GroupLog {
        private final KvTier tier;
        private final int firstGroup;
        /** Empty when all layers have the same window, or none. */
        private final Optional<KvEvent.Group> group;
        /**
         * Nodes per hash, where a node is several blocks of an event: siblings may begin with the same blocks, which
         * enter with the first of them and leave with the last.
         */
        private final Map<Long, Integer> holders = new HashMap<>();
        /** The last event, which may grow; null when nothing is recorded since the last one ended. */
        private @Nullable Run run;

        GroupLog(KvTier tier, int firstGroup, Optional<KvEvent.Group> group) {
            this.tier = tier;
            this.firstGroup = firstGroup;
            this.group = group;
        }

        /**
         * Whether events name the node's block. Who reads events without groups hits a prefix from its first block on,
         * so of a prefix that lacks blocks they name none.
         */
        boolean tellsOf(PrefixNode node) {
            return group.isEmpty() ? !node.lacksBlocks : node.has(firstGroup);
        }

        void added(PrefixNode node, long[] hashes) {
            int known = 0;
            for (int i = 0; i < hashes.length && hashes.length > 1; i++) {
                known += holders.merge(hashes[i], 1, Integer::sum) > 1 ? 1 : 0;
            }
            PrefixNode before = node.previous();
            OptionalLong parent = known > 0
                    ? OptionalLong.of(hashes[known - 1])
                    : before == null ? OptionalLong.empty() : OptionalLong.of(before.hash);
            StoredRun stored = run instanceof StoredRun last && last.isFollowedBy(parent) ? last : null;
            if (stored == null) {
                endRun();
                stored = new StoredRun(parent, node.salt());
                run = stored;
            }
            stored.add(hashes, known, node.tokens, known * blockTokens);
        }

        void dropped(long[] hashes) {
            RemovedRun removed = run instanceof RemovedRun last ? last : null;
            if (removed == null) {
                endRun();
                removed = new RemovedRun();
                run = removed;
            }
            for (int i = hashes.length - 1; i >= 0; i--) {
                boolean held = hashes.length > 1 && holders.merge(hashes[i], -1, KvEventLog::sumOrNone) != null;
                if (!held) {
                    removed.add(hashes[i]);
                }
            }
        }

        private void endRun() {
            if (run != null) {
                events.add(run.event(tier, group, blockTokens));
                run = null;
            }
        }

        private void clear() {
            run = null;
            holders.clear();
        }
    }

    private static @Nullable Integer sumOrNone(int left, int change) {
        return left + change == 0 ? null : left + change;
    }

    /** An event that may grow. */
    private sealed interface Run {
        KvEvent event(KvTier tier, Optional<KvEvent.Group> group, int blockTokens);
    }

    private static final class StoredRun implements Run {
        private final OptionalLong parent;
        private final String salt;
        private long[] hashes = {};
        private int[] tokens = {};
        private int blocks;
        private int tokenCount;

        StoredRun(OptionalLong parent, String salt) {
            this.parent = parent;
            this.salt = salt;
        }

        boolean isFollowedBy(OptionalLong nextParent) {
            return nextParent.isPresent() && nextParent.getAsLong() == hashes[blocks - 1];
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
        public KvEvent event(KvTier tier, Optional<KvEvent.Group> group, int blockTokens) {
            return new Stored(
                    tier,
                    group,
                    Arrays.copyOf(hashes, blocks),
                    parent,
                    Arrays.copyOf(tokens, tokenCount),
                    blockTokens,
                    salt);
        }
    }

    private static final class RemovedRun implements Run {
        private long[] hashes = new long[4];
        private int count;

        void add(long hash) {
            if (count == hashes.length) {
                hashes = Arrays.copyOf(hashes, 2 * count);
            }
            hashes[count++] = hash;
        }

        @Override
        public KvEvent event(KvTier tier, Optional<KvEvent.Group> group, int blockTokens) {
            return new Removed(tier, group, Arrays.copyOf(hashes, count));
        }
    }
}
