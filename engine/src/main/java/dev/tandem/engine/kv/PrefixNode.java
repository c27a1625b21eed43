package dev.tandem.engine.kv;

import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/**
 * A node of {@link PrefixTree}: one full block of tokens after one prefix, and the blocks of a tier that hold their KV.
 *
 * <p>Heap: with one group of layers, 64 bytes and 80 for 16 tokens; with more groups, an array of their other blocks.
 *
 * <p>Owned by: engine thread; changed by {@link PrefixTree} alone.
 */
class PrefixNode {
    /** A block: the node has none of that group, because who registered it held none. */
    static final int ABSENT = -1;

    /** A node without tokens and blocks: the empty prefix of one cache salt. */
    static final class Root extends PrefixNode {
        final String salt;

        /** @param hash of the salt */
        Root(String salt, long hash) {
            super(null, hash, new int[0], new int[] {ABSENT});
            this.salt = salt;
        }
    }

    /** Null for a root. */
    final @Nullable PrefixNode parent;
    /** Of the salt and of all tokens up to this node's last. */
    final long hash;
    /** [block tokens] empty for a root. */
    final int[] tokens;

    private int firstBlock;
    /** [groups - 1] null where there is one group, so that most nodes have no array of blocks. */
    private final int @Nullable [] otherBlocks;

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

    private PrefixNode(@Nullable PrefixNode parent, long hash, int[] tokens, int[] blocks) {
        this.parent = parent;
        this.hash = hash;
        this.tokens = tokens;
        this.firstBlock = blocks[0];
        this.otherBlocks = blocks.length == 1 ? null : Arrays.copyOfRange(blocks, 1, blocks.length);
        this.depth = parent == null ? 0 : parent.depth + 1;
        this.lacksBlocks = parent != null && (parent.lacksBlocks || lacksAny());
    }

    PrefixNode child(long hash, int[] tokens, int[] blocks) {
        return new PrefixNode(this, hash, tokens, blocks);
    }

    /** Groups of layers, each of which has a block or lacks it. */
    int groups() {
        return otherBlocks == null ? 1 : 1 + otherBlocks.length;
    }

    /**
     * The block of a group of layers, or {@link #ABSENT}. All may be absent where all layers have a window: then the
     * node is there for the sake of those that follow it.
     */
    int block(int group) {
        return otherBlocks == null || group == 0 ? firstBlock : otherBlocks[group - 1];
    }

    /** Changes the block of a group. */
    void block(int group, int block) {
        if (otherBlocks == null || group == 0) {
            firstBlock = block;
        } else {
            otherBlocks[group - 1] = block;
        }
    }

    /** [groups] the blocks, as a copy. */
    int[] blocks() {
        int[] blocks = new int[groups()];
        Arrays.setAll(blocks, this::block);
        return blocks;
    }

    boolean has(int group) {
        return block(group) != ABSENT;
    }

    /** Whether the block of some group is there. */
    boolean hasAny() {
        for (int group = 0; group < groups(); group++) {
            if (has(group)) {
                return true;
            }
        }
        return false;
    }

    /** Whether the block of some group is absent. */
    boolean lacksAny() {
        for (int group = 0; group < groups(); group++) {
            if (!has(group)) {
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
        return ((Root) at).salt;
    }

    /** The node that holds the block before this one's; null when this one holds the first. */
    @Nullable
    PrefixNode previous() {
        return parent == null || parent.depth == 0 ? null : parent;
    }
}
