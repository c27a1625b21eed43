package dev.tandem.engine.kv;

import dev.tandem.engine.request.Sequence;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;

/**
 * Grants, moves and frees KV blocks. A sequence's blocks are all in one place.
 *
 * <p>Owned by: engine thread.
 */
public final class KvCache implements KvCapacity {
    private final int gpuBlockTokens;
    private final int hostBlockTokens;
    private final BlockPool gpu;
    private final BlockPool host;

    /** Blocks of the same number of tokens in both places. */
    public KvCache(int blockTokens, int gpuBlocks, int hostBlocks) {
        this(blockTokens, blockTokens, gpuBlocks, hostBlocks);
    }

    /**
     * @param gpuBlockTokens tokens a GPU block
     * @param hostBlockTokens tokens a host block
     */
    public KvCache(int gpuBlockTokens, int hostBlockTokens, int gpuBlocks, int hostBlocks) {
        this.gpuBlockTokens = gpuBlockTokens;
        this.hostBlockTokens = hostBlockTokens;
        this.gpu = new BlockPool(KvTier.GPU, gpuBlocks);
        this.host = new BlockPool(KvTier.HOST, hostBlocks);
    }

    @Override
    public BlockPool pool(KvTier tier) {
        return switch (tier) {
            case GPU -> gpu;
            case HOST -> host;
        };
    }

    @Override
    public int blocksFor(KvTier tier, int tokens) {
        int each = tier == KvTier.GPU ? gpuBlockTokens : hostBlockTokens;
        return (tokens + each - 1) / each;
    }

    @Override
    public int missing(Sequence sequence, int tokens) {
        return Math.max(
                0, blocksFor(sequence.table().tier(), tokens) - sequence.table().count());
    }

    /** Decides where a sequence without blocks will live. */
    public void assignTier(Sequence sequence, KvTier tier) {
        sequence.table().tier(tier);
    }

    /** Grants blocks for {@code tokens} tokens in all; grants none and returns false when they are not there. */
    public boolean grow(Sequence sequence, int tokens) {
        BlockTable table = sequence.table();
        BlockPool pool = pool(table.tier());
        int missing = missing(sequence, tokens);
        if (missing > pool.free()) {
            return false;
        }
        for (int i = 0; i < missing; i++) {
            table.add(pool.take(sequence.key()));
        }
        return true;
    }

    /**
     * Blocks are given back from the last on: who takes them next has them in their order, and copies neighbours at
     * once.
     */
    public void release(Sequence sequence) {
        BlockTable table = sequence.table();
        BlockPool pool = pool(table.tier());
        for (int i = table.count() - 1; i >= 0; i--) {
            pool.give(table.block(i), sequence.key());
        }
        table.clear();
    }

    /** Takes the sequence's blocks out of use for good: whoever computed on them may still do so. */
    public void quarantine(Sequence sequence) {
        BlockTable table = sequence.table();
        for (int i = 0; i < table.count(); i++) {
            pool(table.tier()).quarantine(table.block(i), sequence.key());
        }
        table.clear();
    }

    /** Moves the computed KV to the other place; empty when that has no room, and then nothing changed. */
    public Optional<Swap> move(Sequence sequence, KvTier to) {
        BlockTable table = sequence.table();
        KvTier from = table.tier();
        int needed = blocksFor(to, sequence.computed());
        if (from == to || needed > pool(to).free()) {
            return Optional.empty();
        }
        int[] all = table.toArray();
        int[] source = Arrays.copyOf(all, blocksFor(from, sequence.computed()));
        release(sequence);
        table.tier(to);
        for (int i = 0; i < needed; i++) {
            table.add(pool(to).take(sequence.key()));
        }
        return Optional.of(new Swap(sequence.key(), from, source, to, table.toArray(), sequence.computed()));
    }

    /**
     * For tests and idle moments: every block is free or owned by exactly one of the live sequences.
     *
     * @throws IllegalStateException that names the block and the owner
     */
    public void checkIntegrity(Collection<Sequence> live) {
        gpu.checkIntegrity();
        host.checkIntegrity();
        Map<KvTier, Integer> held = new HashMap<>(Map.of(KvTier.GPU, 0, KvTier.HOST, 0));
        for (Sequence sequence : live) {
            BlockTable table = sequence.table();
            for (int i = 0; i < table.count(); i++) {
                long owner = pool(table.tier()).owner(table.block(i));
                if (owner != sequence.key()) {
                    throw new IllegalStateException(
                            sequence + " lists " + table.tier() + " block " + table.block(i) + " owned by " + owner);
                }
            }
            held.merge(table.tier(), table.count(), Integer::sum);
            if (table.count() < blocksFor(table.tier(), sequence.computed())) {
                throw new IllegalStateException(sequence + " has " + table.count() + " blocks, too few for its KV");
            }
        }
        for (KvTier tier : KvTier.values()) {
            if (held.get(tier) != pool(tier).used()) {
                throw new IllegalStateException(tier + " pool: sequences hold " + held.get(tier) + " of "
                        + pool(tier).used() + " used blocks");
            }
        }
    }
}
