package dev.tandem.engine.kv;

import java.util.Arrays;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * A node of {@link PrefixTree}: one full block of tokens after one prefix, and the blocks of a tier that hold their KV.
 *
 * <p>A root has no tokens and no block; it stands for the empty prefix of one cache salt.
 *
 * <p>Owned by: engine thread; changed by {@link PrefixTree} alone.
 */
final class PrefixNode {
    /** In {@link #blocks}: the node has no block of that group, because who registered it held none. */
    static final int ABSENT = -1;

    final @Nullable PrefixNode parent;
    /** Of a root; null for all other nodes. */
    final @Nullable String salt;
    /** Of the salt and of all tokens up to this node's last. */
    final long hash;
    /** [block tokens] empty for a root. */
    final int[] tokens;

    /**
     * [groups] the block of each group of layers, or {@link #ABSENT}; empty for a root. All may be absent where all
     * layers have a window: then the node is there for the sake of those that follow it.
     */
    final int[] blocks;
    /** Nodes from the root to this one; 0 for a root. */
    final int depth;

    /** Whether this node or one before it lacked a block when it was registered. */
    final boolean lacksBlocks;

    /** False once the tree has dropped the node. */
    boolean attached = true;

    /**
     * Of a GPU node at the end of a host block: the node of a host block with the same prefix, which may be dropped.
     */
    @Nullable
    PrefixNode hostCopy;

    @Nullable
    PrefixNode nextInBucket;

    @Nullable
    PrefixNode firstChild;

    @Nullable
    PrefixNode nextSibling;

    @Nullable
    PrefixNode previousSibling;

    private PrefixNode(@Nullable PrefixNode parent, @Nullable String salt, long hash, int[] tokens, int[] blocks) {
        this.parent = parent;
        this.salt = salt;
        this.hash = hash;
        this.tokens = tokens;
        this.blocks = blocks;
        this.depth = parent == null ? 0 : parent.depth + 1;
        this.lacksBlocks =
                parent != null && parent.lacksBlocks || Arrays.stream(blocks).anyMatch(block -> block == ABSENT);
    }

    static PrefixNode root(String salt, long hash) {
        return new PrefixNode(null, salt, hash, new int[0], new int[0]);
    }

    PrefixNode child(long hash, int[] tokens, int[] blocks) {
        return new PrefixNode(this, null, hash, tokens, blocks);
    }

    boolean has(int group) {
        return blocks[group] != ABSENT;
    }

    /** Whether the block of some group is there. */
    boolean hasAny() {
        for (int block : blocks) {
            if (block != ABSENT) {
                return true;
            }
        }
        return false;
    }

    /** The salt of the prefix. */
    String salt() {
        PrefixNode at = this;
        while (at.parent != null) {
            at = at.parent;
        }
        return Objects.requireNonNull(at.salt, "the root of a prefix has a salt");
    }

    /** The node that holds the block before this one's; null when this one holds the first. */
    @Nullable
    PrefixNode previous() {
        return parent == null || parent.depth == 0 ? null : parent;
    }
}
