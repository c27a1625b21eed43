package dev.tandem.engine.kv;

import java.util.Arrays;
import java.util.EnumMap;
import java.util.Map;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * The KV blocks of one tier: which are free, how many sequences refer to each of the others, and which prefixes they
 * hold. Each is a page of {@link KvLayout}: it holds the KV of one group of layers.
 *
 * <table>
 * <caption>States of a block: {@link BlockState}</caption>
 * <tr><th>state</th><th>references</th><th>node</th><th>ends</th></tr>
 * <tr><td>free</td><td>0</td><td>none</td><td>when it is granted</td></tr>
 * <tr><td>private: its sequence may write it</td><td>1</td><td>none</td>
 *     <td>when it is registered, or released</td></tr>
 * <tr><td>held: nobody writes it</td><td>1 or more</td><td>one</td><td>when the last sequence releases it</td></tr>
 * <tr><td>cached</td><td>0</td><td>one</td><td>when a sequence hits it, or when it is evicted</td></tr>
 * <tr><td>quarantined: a worker or the device may still write it</td><td>0</td><td>none</td><td>never</td></tr>
 * </table>
 *
 * <p>A held block whose prefix has been dropped keeps its references: it is private then, and free after the last one.
 *
 * <p>The block freed last is granted first, so that a small working set stays small. Cached blocks are granted when no
 * block is free, the least recently used first.
 *
 * <p>Owned by: engine thread.
 */
public final class BlockPool {
    private static final int QUARANTINED = -1;

    private final KvTier tier;
    /** Whether sequences give up their first blocks, behind a sliding window, before the later ones. */
    private final boolean slides;
    /** [blocks] sequences that list the block, or {@link #QUARANTINED}. */
    private final int[] references;
    /** [blocks] XOR of the sequences' keys, each plus 1: with one reference, it names the sequence. */
    private final long[] holders;
    /** [blocks] the prefix whose KV the block holds. */
    private final @Nullable PrefixNode[] nodes;

    private final int[] free;
    private int freeCount;
    private int quarantined;
    /** Blocks that sequences refer to and that hold a prefix. */
    private int held;
    /** Sum of all references. */
    private long referenceCount;

    /** [blocks + 1] neighbours of cached blocks in the order of their last use; the last entry is both ends. */
    private final int[] older;

    private final int[] newer;
    private int cached;
    private long evictions;
    private long cacheChanges;
    private final Consumer<PrefixNode> evicted;

    /**
     * Creates a pool whose blocks are all free.
     *
     * @param slides whether sequences give up their first blocks before the later ones
     * @param evicted drops the node of a block that is to be granted to another sequence
     */
    BlockPool(KvTier tier, int blocks, boolean slides, Consumer<PrefixNode> evicted) {
        if (blocks < 0) {
            throw new IllegalArgumentException(
                    "the " + tier + " pool was to have " + blocks + " blocks; it must not be negative");
        }
        this.tier = tier;
        this.slides = slides;
        this.evicted = evicted;
        this.references = new int[blocks];
        this.holders = new long[blocks];
        this.nodes = new PrefixNode[blocks];
        this.free = new int[blocks];
        this.freeCount = blocks;
        for (int i = 0; i < blocks; i++) {
            free[i] = blocks - 1 - i;
        }
        this.older = new int[blocks + 1];
        this.newer = new int[blocks + 1];
        older[blocks] = blocks;
        newer[blocks] = blocks;
    }

    /** Where the blocks are. */
    public KvTier tier() {
        return tier;
    }

    /** All blocks. */
    public int size() {
        return references.length;
    }

    /** Blocks that can be granted, cached ones included. */
    public int free() {
        return freeCount + cached;
    }

    /** Blocks that hold nothing. */
    int empty() {
        return freeCount;
    }

    /** The cached block that was used longest ago; -1 without any. */
    int oldestCached() {
        return newerCached(references.length);
    }

    /** The cached block that was used next after {@code block}; -1 after the last. */
    int newerCached(int block) {
        int next = newer[block];
        return next == references.length ? -1 : next;
    }

    /** Blocks that hold the KV of a prefix and that no sequence refers to. */
    public int cached() {
        return cached;
    }

    /** Blocks that sequences refer to. */
    public int used() {
        return references.length - freeCount - cached - quarantined;
    }

    /** Blocks in a state. The states add up to the pool; borrowed blocks count as private. */
    public int count(BlockState state) {
        return switch (state) {
            case FREE -> freeCount;
            case PRIVATE -> used() - held;
            case HELD -> held;
            case CACHED -> cached;
            case QUARANTINED -> quarantined;
        };
    }

    /** Sequences that refer to the block. */
    public int references(int block) {
        return Math.max(0, references[block]);
    }

    /** References beyond the first of each block. */
    public long shared() {
        return referenceCount - used();
    }

    /** Cached blocks that were granted to another sequence so far. */
    public long evictions() {
        return evictions;
    }

    /** How often a block has become cached, or ceased to be. */
    long cacheChanges() {
        return cacheChanges;
    }

    @Nullable
    PrefixNode node(int block) {
        return nodes[block];
    }

    /** Takes a block out of use that only the sequence refers to and that holds no prefix; releases any other. */
    void quarantine(int block, long sequence) {
        if (references[block] > 1 || nodes[block] != null) {
            give(block, sequence); // its tokens are computed, so nobody writes it
            return;
        }
        removeHolder(block, sequence);
        references[block] = QUARANTINED;
        quarantined++;
    }

    private void removeHolder(int block, long sequence) {
        holders[block] ^= sequence + 1;
        referenceCount--;
        boolean wrong = references[block] <= 1 && holders[block] != 0;
        if (references[block] < 1 || wrong) {
            throw new IllegalStateException(tier + " block " + block + " with " + references[block]
                    + " references is not held by sequence " + sequence);
        }
    }

    int take(long sequence) {
        if (freeCount == 0) {
            evictOldest();
        }
        int block = free[--freeCount];
        addReference(block, sequence);
        return block;
    }

    /** Has the sequence refer to a block that holds a prefix. */
    void share(int block, long sequence) {
        if (references[block] == 0) {
            uncache(block);
            held++;
        }
        addReference(block, sequence);
    }

    private void addReference(int block, long sequence) {
        references[block]++;
        referenceCount++;
        holders[block] ^= sequence + 1;
    }

    /** Ends a sequence's reference; a block without references is free, or cached when it holds a prefix. */
    void give(int block, long sequence) {
        removeHolder(block, sequence);
        if (--references[block] > 0) {
            return;
        }
        if (nodes[block] == null) {
            free[freeCount++] = block;
        } else {
            held--;
            cache(block);
        }
    }

    /** Says that a block that holds a prefix was used: if it is cached, the others are evicted before it. */
    void touch(int block) {
        if (references[block] == 0) {
            uncache(block);
            cache(block);
        }
    }

    private void cache(int block) {
        int end = references.length;
        older[block] = older[end];
        newer[block] = end;
        newer[older[end]] = block;
        older[end] = block;
        cached++;
        cacheChanges++;
    }

    /** Says that a private block holds the KV of a prefix from now on. */
    void register(int block, PrefixNode node) {
        if (references[block] != 1 || nodes[block] != null) {
            throw new IllegalStateException(tier + " block " + block + " with " + references[block]
                    + " references is registered twice, or is shared before it is registered");
        }
        nodes[block] = node;
        held++;
    }

    /** Says that the prefix of the node's blocks is in the tree no more. */
    void unregister(PrefixNode node) {
        for (int group = 0; group < node.groups(); group++) {
            int block = node.block(group);
            if (block == PrefixNode.ABSENT) {
                continue;
            }
            nodes[block] = null;
            if (references[block] == 0) {
                uncache(block);
                free[freeCount++] = block;
            } else {
                held--;
            }
        }
    }

    private void uncache(int block) {
        newer[older[block]] = newer[block];
        older[newer[block]] = older[block];
        cached--;
        cacheChanges++;
    }

    private void evictOldest() {
        int block = newer[references.length];
        PrefixNode node = block == references.length ? null : nodes[block];
        if (node == null) {
            throw new IllegalStateException("the " + tier + " pool has no block to grant");
        }
        evict(node);
    }

    /** Drops the prefix of a cached block, so that it is free. */
    void evict(int block) {
        PrefixNode node = nodes[block];
        if (node == null || references[block] > 0) {
            throw new IllegalStateException(tier + " block " + block + " is not cached, so it cannot be evicted");
        }
        evict(node);
    }

    private void evict(PrefixNode node) {
        evictions++;
        evicted.accept(node);
    }

    /** Takes free blocks out of the free list until {@link #giveBack}; nobody owns them. */
    int[] borrow(int blocks) {
        if (blocks > free()) {
            throw new IllegalStateException(
                    tier + " pool: " + blocks + " blocks are to be borrowed and " + free() + " are free");
        }
        while (freeCount < blocks) {
            evictOldest();
        }
        freeCount -= blocks;
        return Arrays.copyOfRange(free, freeCount, freeCount + blocks);
    }

    void giveBack(int[] blocks) {
        for (int block : blocks) {
            free[freeCount++] = block;
        }
    }

    /**
     * Fails when a block is lost, is in two states, or has other references than those of the tables.
     *
     * @param expected [blocks] how many tables list the block
     * @param keys [blocks] XOR of the keys of their sequences, each plus 1
     */
    void checkIntegrity(int[] expected, long[] keys) {
        int[] states = new int[references.length];
        for (int i = 0; i < freeCount; i++) {
            states[free[i]]++;
        }
        for (int i = 0; i < freeCount; i++) {
            int block = free[i];
            require(references[block] == 0 && nodes[block] == null && states[block] == 1, block, "is not free once");
        }
        for (int block = newer[references.length]; block != references.length; block = newer[block]) {
            states[block]++;
            PrefixNode node = nodes[block];
            require(references[block] == 0 && node != null, block, "is in the list of cached blocks");
            boolean last = slides || node == null || node.firstChild == null || isDone(node, states);
            require(last, block, "precedes its child");
        }
        Map<BlockState, Integer> counts = new EnumMap<>(BlockState.class);
        for (int block = 0; block < references.length; block++) {
            PrefixNode node = nodes[block];
            require(node == null || holds(node, block) && node.attached, block, "and its node do not agree");
            PrefixNode before = node == null ? null : node.previous();
            require(before == null || before.attached, block, "has a prefix that is not in the tree");
            counts.merge(state(block), 1, Integer::sum);
            states[block] += references[block] == 0 ? 0 : 1;
            require(states[block] == 1, block, "is lost, or in two states");
            require(
                    references(block) == expected[block] && holders[block] == keys[block],
                    block,
                    "is listed by " + expected[block] + " tables");
        }
        for (BlockState state : BlockState.values()) {
            int counted = counts.getOrDefault(state, 0);
            if (counted != count(state)) {
                throw new IllegalStateException(
                        tier + " pool: " + counted + " blocks are " + state + ", and it counts " + count(state));
            }
        }
    }

    /** The state of a block that is not borrowed. */
    private BlockState state(int block) {
        boolean hasPrefix = nodes[block] != null;
        return switch (references[block]) {
            case QUARANTINED -> BlockState.QUARANTINED;
            case 0 -> hasPrefix ? BlockState.CACHED : BlockState.FREE;
            default -> hasPrefix ? BlockState.HELD : BlockState.PRIVATE;
        };
    }

    /** Whether all children of a cached node are cached before it. Without windows each has all of its blocks. */
    private static boolean isDone(PrefixNode node, int[] states) {
        for (PrefixNode child = node.firstChild; child != null; child = child.nextSibling) {
            if (states[child.block(0)] == 0) {
                return false;
            }
        }
        return true;
    }

    private static boolean holds(PrefixNode node, int block) {
        for (int group = 0; group < node.groups(); group++) {
            if (node.block(group) == block) {
                return true;
            }
        }
        return false;
    }

    private void require(boolean holds, int block, String what) {
        if (!holds) {
            throw new IllegalStateException(
                    tier + " block " + block + " with " + references[block] + " references " + what);
        }
    }
}
