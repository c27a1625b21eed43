package dev.tandem.engine.kv;

import dev.tandem.engine.request.Sequence;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * Which block of one tier holds the KV of which tokens after which prefix.
 *
 * <p>A chain hash finds a node, and a comparison of its parent and its tokens confirms it. So two prefixes with equal
 * hashes never share KV. Each cache salt has a root of its own, so prefixes of different salts never meet.
 *
 * <p>A node is dropped together with all its descendants, because a prefix is matched from its first block on. A node
 * without any block is dropped with its last child, because no eviction would ever name it.
 *
 * <p>Owned by: engine thread.
 */
final class PrefixTree {
    private final int blockTokens;
    private final long hashMask;
    private final PrefixHashes hashes;
    /** Null when changes are not recorded. */
    private final KvEventLog.@Nullable TierLog log;

    private final PrefixNode[] buckets;
    /** By salt; a root is there while it has children. */
    private final Map<String, PrefixNode.Root> roots = new HashMap<>();

    private long firstBlocks;

    /**
     * Creates an empty tree over a pool of {@code blocks} blocks.
     *
     * @param log where changes are recorded; null when they are not
     */
    PrefixTree(int blockTokens, int blocks, long hashMask, PrefixHashes hashes, KvEventLog.@Nullable TierLog log) {
        this.blockTokens = blockTokens;
        this.hashMask = hashMask;
        this.hashes = hashes;
        this.log = log;
        this.buckets = new PrefixNode[Integer.highestOneBit(Math.max(1, blocks)) << 1];
    }

    /** First blocks of prefixes that were added so far: until it changes, who hits nothing will hit nothing. */
    long firstBlocks() {
        return firstBlocks;
    }

    /** The root of a salt; null while it has no children. */
    @Nullable
    PrefixNode root(String salt) {
        return roots.get(salt);
    }

    /** The root of a salt, to which the caller then adds a child. */
    PrefixNode rootToExtend(String salt) {
        return roots.computeIfAbsent(salt, key -> new PrefixNode.Root(key, hashes.root(key)));
    }

    /** The child of a node with the sequence's tokens of the next block; null when there is none. */
    @Nullable
    PrefixNode child(PrefixNode parent, Sequence sequence) {
        return find(parent, sequence, childHash(parent, sequence));
    }

    private @Nullable PrefixNode find(PrefixNode parent, Sequence sequence, long hash) {
        for (PrefixNode node = buckets[bucket(hash)]; node != null; node = node.nextInBucket) {
            if (meets(node, hash) && node.parent == parent && hasTokens(node, sequence)) {
                return node;
            }
        }
        return null;
    }

    /** The child of a node with the tokens of the next block; null when there is none. */
    @Nullable
    PrefixNode child(PrefixNode parent, long hash, int[] tokens) {
        for (PrefixNode node = buckets[bucket(hash)]; node != null; node = node.nextInBucket) {
            if (meets(node, hash) && node.parent == parent && Arrays.equals(node.tokens, tokens)) {
                return node;
            }
        }
        return null;
    }

    private boolean meets(PrefixNode node, long hash) {
        return ((node.hash ^ hash) & hashMask) == 0;
    }

    private boolean hasTokens(PrefixNode node, Sequence sequence) {
        int from = (node.depth - 1) * blockTokens;
        for (int i = 0; i < blockTokens; i++) {
            if (node.tokens[i] != sequence.token(from + i)) {
                return false;
            }
        }
        return true;
    }

    /** Adds the child that {@link #child} does not find, and says which blocks hold its KV. */
    PrefixNode add(PrefixNode parent, Sequence sequence, int... blocks) {
        int[] tokens = sequence.tokens(parent.depth * blockTokens, blockTokens);
        return add(parent, childHash(parent, sequence), tokens, blocks);
    }

    /** Adds the child that {@link #child} does not find, and says which blocks hold its KV. */
    PrefixNode add(PrefixNode parent, long hash, int[] tokens, int... blocks) {
        PrefixNode node = parent.child(hash, tokens, blocks);
        firstBlocks += node.depth == 1 ? 1 : 0;
        int bucket = bucket(hash);
        node.nextInBucket = buckets[bucket];
        buckets[bucket] = node;
        PrefixNode sibling = parent.firstChild;
        if (sibling != null) {
            sibling.previousSibling = node;
        }
        node.nextSibling = sibling;
        parent.firstChild = node;
        if (log != null) {
            log.added(node);
        }
        return node;
    }

    /** Says which block holds the KV of a node in a group of layers in which it lacked one. */
    void fill(PrefixNode node, int group, int block) {
        node.block(group, block);
        if (log != null) {
            log.filled(node, group);
        }
    }

    /** Forgets a root to which no child was added. */
    void dropIfEmpty(PrefixNode node) {
        if (node instanceof PrefixNode.Root root && root.firstChild == null) {
            roots.remove(root.salt);
        }
    }

    /** Drops a node and its descendants, and nodes without blocks that precede nothing else. */
    void drop(PrefixNode last, Consumer<PrefixNode> dropped) {
        PrefixNode node = last;
        for (PrefixNode before = node.previous();
                before != null && !before.hasAny() && before.firstChild == node && node.nextSibling == null;
                before = node.previous()) {
            node = before;
        }
        if (log == null) {
            remove(node, dropped);
            return;
        }
        List<PrefixNode> nodes = new ArrayList<>();
        remove(node, dropped.andThen(nodes::add));
        nodes.reversed().forEach(log::dropped);
    }

    private void remove(PrefixNode node, Consumer<PrefixNode> removed) {
        unlinkFromParent(node);
        List<PrefixNode> left = new ArrayList<>();
        left.add(node);
        while (!left.isEmpty()) {
            PrefixNode next = left.removeLast();
            for (PrefixNode child = next.firstChild; child != null; child = child.nextSibling) {
                left.add(child);
            }
            next.attached = false;
            unlinkFromBucket(next);
            removed.accept(next);
        }
    }

    /** Drops all nodes. The caller records that, for the trees of both tiers at once. */
    void clear(Consumer<PrefixNode> dropped) {
        for (PrefixNode root : List.copyOf(roots.values())) {
            while (root.firstChild != null) {
                remove(root.firstChild, dropped);
            }
        }
    }

    private void unlinkFromParent(PrefixNode node) {
        PrefixNode parent = node.parent;
        if (parent == null) {
            throw new IllegalStateException("a root is dropped with its last child, not by itself");
        }
        PrefixNode before = node.previousSibling;
        PrefixNode after = node.nextSibling;
        if (before != null) {
            before.nextSibling = after;
        } else {
            parent.firstChild = after;
        }
        if (after != null) {
            after.previousSibling = before;
        }
        dropIfEmpty(parent);
    }

    private void unlinkFromBucket(PrefixNode node) {
        int bucket = bucket(node.hash);
        PrefixNode at = buckets[bucket];
        if (at == node) {
            buckets[bucket] = node.nextInBucket;
            return;
        }
        while (at != null && at.nextInBucket != node) {
            at = at.nextInBucket;
        }
        if (at == null) {
            throw new IllegalStateException(
                    "the node of blocks " + Arrays.toString(node.blocks()) + " is not in its bucket");
        }
        at.nextInBucket = node.nextInBucket;
    }

    /** @throws IllegalStateException when a node has neither a block nor a child, so that nothing would drop it */
    void checkIntegrity() {
        for (PrefixNode bucket : buckets) {
            for (PrefixNode node = bucket; node != null; node = node.nextInBucket) {
                if (!node.attached || node.firstChild == null && !node.hasAny()) {
                    throw new IllegalStateException("the tree has a node of depth " + node.depth
                            + " that was dropped, or has neither a block nor a child");
                }
            }
        }
    }

    private long childHash(PrefixNode parent, Sequence sequence) {
        int from = parent.depth * blockTokens;
        return hashes.extended(parent.hash, sequence, from, from + blockTokens);
    }

    private int bucket(long hash) {
        return (int) (hash & hashMask) & buckets.length - 1;
    }
}
