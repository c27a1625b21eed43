package dev.tandem.engine.kv;

import java.util.Arrays;

/**
 * The KV blocks of one tier: which are free, and which sequence owns each of the others.
 *
 * <p>The block freed last is granted first, so that a small working set stays small.
 *
 * <p>Owned by: engine thread.
 */
public final class BlockPool {
    private static final long FREE = -1;
    /** Never granted again, because a worker or the device may still write it. */
    private static final long QUARANTINED = -2;

    private final KvTier tier;
    private final long[] owner;
    private final int[] free;
    private int freeCount;
    private int quarantined;

    /** Creates a pool whose blocks are all free. */
    public BlockPool(KvTier tier, int blocks) {
        if (blocks < 0) {
            throw new IllegalArgumentException(
                    "the " + tier + " pool was to have " + blocks + " blocks; it must not be negative");
        }
        this.tier = tier;
        this.owner = new long[blocks];
        this.free = new int[blocks];
        this.freeCount = blocks;
        Arrays.fill(owner, FREE);
        for (int i = 0; i < blocks; i++) {
            free[i] = blocks - 1 - i;
        }
    }

    /** Where the blocks are. */
    public KvTier tier() {
        return tier;
    }

    /** All blocks. */
    public int size() {
        return owner.length;
    }

    /** Blocks that can be granted. */
    public int free() {
        return freeCount;
    }

    /** Blocks that sequences own. */
    public int used() {
        return owner.length - freeCount - quarantined;
    }

    void quarantine(int block, long sequence) {
        requireOwner(block, sequence);
        owner[block] = QUARANTINED;
        quarantined++;
    }

    private void requireOwner(int block, long sequence) {
        if (owner[block] != sequence) {
            throw new IllegalStateException(
                    tier + " block " + block + " is owned by " + owner[block] + ", not by sequence " + sequence);
        }
    }

    int take(long sequence) {
        int block = free[--freeCount];
        owner[block] = sequence;
        return block;
    }

    void give(int block, long sequence) {
        requireOwner(block, sequence);
        owner[block] = FREE;
        free[freeCount++] = block;
    }

    /** Takes free blocks out of the free list until {@link #giveBack}; nobody owns them. */
    int[] borrow(int blocks) {
        if (blocks > freeCount) {
            throw new IllegalStateException(
                    tier + " pool: " + blocks + " blocks are to be borrowed and " + freeCount + " are free");
        }
        freeCount -= blocks;
        return Arrays.copyOfRange(free, freeCount, freeCount + blocks);
    }

    void giveBack(int[] blocks) {
        for (int block : blocks) {
            free[freeCount++] = block;
        }
    }

    long owner(int block) {
        return owner[block];
    }

    /** Fails when a block is lost, free twice, or both free and owned. */
    void checkIntegrity() {
        boolean[] seen = new boolean[owner.length];
        for (int i = 0; i < freeCount; i++) {
            int block = free[i];
            if (seen[block] || owner[block] != FREE) {
                throw new IllegalStateException(tier + " block " + block + " is in the free list and is owned by "
                        + owner[block] + ", or is there twice");
            }
            seen[block] = true;
        }
        int owned = 0;
        for (long holder : owner) {
            if (holder != FREE) {
                owned++;
            }
        }
        if (owned + freeCount != owner.length) {
            throw new IllegalStateException(
                    tier + " pool: " + owned + " owned + " + freeCount + " free of " + owner.length + " blocks");
        }
    }
}
