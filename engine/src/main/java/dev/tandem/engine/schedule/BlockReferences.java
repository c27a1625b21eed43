package dev.tandem.engine.schedule;

import dev.tandem.engine.kv.BlockTable;
import dev.tandem.engine.kv.GroupTable;
import dev.tandem.engine.kv.KvCapacity;
import dev.tandem.engine.kv.KvTier;
import dev.tandem.engine.kv.PrefixUse;
import dev.tandem.engine.request.Sequence;
import java.util.HashMap;
import java.util.Map;

/**
 * How many sequences refer to each KV block once a draft is carried out. It counts only where sequences share KV; every
 * other block that is not free has one.
 *
 * <p>Owned by: engine thread.
 */
final class BlockReferences {
    private final KvCapacity kv;
    /** References that the draft adds to GPU blocks, by block; only when sequences share KV. */
    private final Map<Integer, Integer> addedOnGpu = new HashMap<>();

    private final Map<Integer, Integer> addedOnHost = new HashMap<>();

    BlockReferences(KvCapacity kv) {
        this.kv = kv;
    }

    /** Counts references to the shared blocks of a use, and to those that it copies until the plan is made. */
    void add(PrefixUse use, int each) {
        for (int group = 0; group < use.first().length; group++) {
            for (int i = use.first()[group]; i < use.shared(); i++) {
                added(use.tier()).merge(use.block(group, i), each, Integer::sum);
            }
        }
        for (int i = 0; i < use.sources(); i++) {
            if (use.other()[i] != PrefixUse.ABSENT) {
                added(use.tier().other()).merge(use.other()[i], each, Integer::sum);
            }
        }
    }

    /**
     * Shared blocks of a use that other sequences refer to once the draft is carried out. Without windows, a sequence
     * that refers to a block refers to all blocks before it, so they are the first ones.
     */
    int heldByOthers(PrefixUse use) {
        if (!kv.layout().slides()) {
            return heldByOthers(use.tier(), use.found(), use.shared());
        }
        int count = 0;
        for (int group = 0; group < use.first().length; group++) {
            count += heldByOthers(use, group);
        }
        return count;
    }

    /** Those of one group. */
    int heldByOthers(PrefixUse use, int group) {
        if (!kv.layout().slides()) {
            return heldByOthers(use.tier(), use.found(), use.shared());
        }
        int count = 0;
        for (int i = use.first()[group]; i < use.shared(); i++) {
            count += count(use.tier(), use.block(group, i)) > 0 ? 1 : 0;
        }
        return count;
    }

    /** Free blocks of the other tier that must not be granted before a use has copied from them. */
    int pinned(PrefixUse use) {
        KvTier other = use.tier().other();
        if (!kv.layout().slides()) {
            return use.sources() - heldByOthers(other, use.other(), use.sources());
        }
        int count = 0;
        for (int i = 0; i < use.sources(); i++) {
            boolean there = use.other()[i] != PrefixUse.ABSENT;
            count += there && count(other, use.other()[i]) == 0 ? 1 : 0;
        }
        return count;
    }

    private int heldByOthers(KvTier tier, int[] blocks, int of) {
        int count = of;
        while (count > 0 && count(tier, blocks[count - 1]) == 0) {
            count--;
        }
        return count;
    }

    private Map<Integer, Integer> added(KvTier tier) {
        return switch (tier) {
            case GPU -> addedOnGpu;
            case HOST -> addedOnHost;
        };
    }

    private int count(KvTier tier, int block) {
        return kv.pool(tier).references(block) + added(tier).getOrDefault(block, 0);
    }

    /** Blocks that become free if the sequence leaves its tier. */
    int freedBy(Sequence leaving) {
        BlockTable table = leaving.table();
        if (!kv.cachesPrefixes()) {
            return table.pages();
        }
        int freed = 0;
        for (int group = 0; group < table.groups(); group++) {
            GroupTable blocks = table.group(group);
            for (int i = blocks.first(); i < blocks.end(); i++) {
                freed += count(table.tier(), blocks.block(i)) == 1 ? 1 : 0;
            }
        }
        return freed;
    }

    /**
     * Counts the sequence's references to its blocks as gone.
     *
     * @return blocks that are free as soon as it leaves, before any other sequence of the draft moves
     */
    int release(Sequence sequence) {
        BlockTable table = sequence.table();
        if (!kv.cachesPrefixes()) {
            return table.pages();
        }
        int own = 0;
        for (int group = 0; group < table.groups(); group++) {
            GroupTable blocks = table.group(group);
            for (int i = blocks.first(); i < blocks.end(); i++) {
                int block = blocks.block(i);
                added(table.tier()).merge(block, -1, Integer::sum);
                boolean alone = kv.pool(table.tier()).references(block) == 1;
                own += alone && count(table.tier(), block) == 0 ? 1 : 0;
            }
        }
        return own;
    }
}
