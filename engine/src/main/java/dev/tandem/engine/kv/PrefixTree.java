package dev.tandem.engine.kv;

import dev.tandem.engine.request.Sequence;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * Which GPU block holds the KV of which tokens after which prefix.
 *
 * <p>A chain hash finds a node, and a comparison of its parent and its tokens confirms it. So two prefixes with equal
 * hashes never share KV. Each cache salt has a root of its own, so prefixes of different salts never meet.
 *
 * <p>A node is dropped together with all its descendants, because a prefix is matched from its first block on.
 *
 * <p>Owned by: engine thread.
 */
final class PrefixTree {
    private final int blockTokens;
    private final PrefixCacheOptions options;
    private final PrefixNode[] buckets;
    /** By salt; a root is there while it has children. */
    private final Map<String, PrefixNode> roots = new HashMap<>();

    /** Creates an empty tree over a pool of {@code blocks} blocks. */
    PrefixTree(int blockTokens, int blocks, PrefixCacheOptions options) {
        this.blockTokens = blockTokens;
        this.options = options;
        this.buckets = new PrefixNode[Integer.highestOneBit(Math.max(1, blocks)) << 1];
    }

    /** The root of a salt; null while it has no children. */
    @Nullable
    PrefixNode root(String salt) {
        return roots.get(salt);
    }

    /** The root of a salt, to which the caller then adds a child. */
    PrefixNode rootToExtend(String salt) {
        return roots.computeIfAbsent(salt, key -> {
            long hash = options.seed();
            for (int i = 0; i < key.length(); i++) {
                hash = mix(hash, key.charAt(i));
            }
            return PrefixNode.root(key, masked(mix(hash, key.length())));
        });
    }

    /** The child of a node with the sequence's tokens of the next block; null when there is none. */
    @Nullable
    PrefixNode child(PrefixNode parent, Sequence sequence) {
        return find(parent, sequence, childHash(parent, sequence));
    }

    private @Nullable PrefixNode find(PrefixNode parent, Sequence sequence, long hash) {
        for (PrefixNode node = buckets[bucket(hash)]; node != null; node = node.nextInBucket) {
            if (node.hash == hash && node.parent == parent && hasTokens(node, sequence)) {
                return node;
            }
        }
        return null;
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

    /** Adds the child that {@link #child} does not find, and says that {@code block} holds its KV. */
    PrefixNode add(PrefixNode parent, Sequence sequence, int block) {
        long hash = childHash(parent, sequence);
        PrefixNode node = parent.child(hash, sequence.tokens(parent.depth * blockTokens, blockTokens), block);
        int bucket = bucket(hash);
        node.nextInBucket = buckets[bucket];
        buckets[bucket] = node;
        PrefixNode sibling = parent.firstChild;
        if (sibling != null) {
            sibling.previousSibling = node;
        }
        node.nextSibling = sibling;
        parent.firstChild = node;
        return node;
    }

    /** Drops a node and its descendants. */
    void drop(PrefixNode node, Consumer<PrefixNode> dropped) {
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
            dropped.accept(next);
        }
    }

    /** Drops all nodes. */
    void clear(Consumer<PrefixNode> dropped) {
        for (PrefixNode root : List.copyOf(roots.values())) {
            while (root.firstChild != null) {
                drop(root.firstChild, dropped);
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
        if (parent.depth == 0 && parent.firstChild == null) {
            roots.remove(parent.salt);
        }
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
            throw new IllegalStateException("the node of block " + node.block + " is not in its bucket");
        }
        at.nextInBucket = node.nextInBucket;
    }

    private long childHash(PrefixNode parent, Sequence sequence) {
        long hash = parent.hash;
        int from = parent.depth * blockTokens;
        for (int i = 0; i < blockTokens; i++) {
            hash = mix(hash, sequence.token(from + i));
        }
        return masked(hash);
    }

    private long masked(long hash) {
        return hash & options.hashMask();
    }

    private int bucket(long hash) {
        return (int) hash & buckets.length - 1;
    }

    /** One round of a multiplicative hash with folding, so that every bit of both values reaches the low bits. */
    private static long mix(long hash, int value) {
        long x = (hash ^ value) * 0x9E3779B97F4A7C15L;
        return x ^ x >>> 29;
    }
}
