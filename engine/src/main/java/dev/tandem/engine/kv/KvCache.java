package dev.tandem.engine.kv;

import dev.tandem.engine.request.Sequence;
import java.util.Arrays;
import java.util.Collection;
import java.util.EnumMap;
import java.util.Map;
import java.util.Optional;

/**
 * Grants, moves and frees KV blocks. All blocks of a sequence are in one tier.
 *
 * <p>Owned by: engine thread.
 */
public final class KvCache implements KvCapacity {
    private final int gpuBlockTokens;
    private final int hostBlockTokens;
    private final PrefillStaging staging;
    private final BlockPool gpu;
    private final BlockPool host;

    /** Creates a cache whose blocks have the same number of tokens in both tiers, and that stages no prefills. */
    public KvCache(int blockTokens, int gpuBlocks, int hostBlocks) {
        this(blockTokens, blockTokens, gpuBlocks, hostBlocks, PrefillStaging.NONE);
    }

    /**
     * Creates a cache whose blocks are all free.
     *
     * @param gpuBlockTokens tokens per GPU block
     * @param hostBlockTokens tokens per host block
     * @param staging how many GPU blocks a step borrows to offload prefills
     */
    public KvCache(int gpuBlockTokens, int hostBlockTokens, int gpuBlocks, int hostBlocks, PrefillStaging staging) {
        this.gpuBlockTokens = gpuBlockTokens;
        this.hostBlockTokens = hostBlockTokens;
        this.staging = staging;
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
    public int blockTokens(KvTier tier) {
        return switch (tier) {
            case GPU -> gpuBlockTokens;
            case HOST -> hostBlockTokens;
        };
    }

    @Override
    public int blocksFor(KvTier tier, int tokens) {
        int each = blockTokens(tier);
        return (tokens + each - 1) / each;
    }

    @Override
    public PrefillStaging staging() {
        return staging;
    }

    /**
     * GPU blocks that one step may use until it ends. They are not granted before {@link #giveBack}.
     *
     * @throws IllegalStateException when fewer are free
     */
    public int[] borrow(int blocks) {
        return gpu.borrow(blocks);
    }

    /** Frees borrowed blocks. That may be before the step ends, because later steps begin after it. */
    public void giveBack(int[] blocks) {
        gpu.giveBack(blocks);
    }

    @Override
    public int missing(Sequence sequence, int tokens) {
        return Math.max(
                0, blocksFor(sequence.table().tier(), tokens) - sequence.table().count());
    }

    /** Sets the tier of a sequence without blocks. */
    public void assignTier(Sequence sequence, KvTier tier) {
        sequence.table().tier(tier);
    }

    /**
     * Grants the blocks that the sequence lacks for {@code tokens} tokens; grants none and returns false when they are
     * not free.
     */
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
     * Frees all blocks of the sequence, the last one first. The next owner gets them in ascending order, so that copies
     * of adjacent blocks can be merged.
     */
    public void release(Sequence sequence) {
        BlockTable table = sequence.table();
        BlockPool pool = pool(table.tier());
        for (int i = table.count() - 1; i >= 0; i--) {
            pool.give(table.block(i), sequence.key());
        }
        table.clear();
    }

    /** Takes the sequence's blocks out of use for good, because a worker or the device may still write them. */
    public void quarantine(Sequence sequence) {
        BlockTable table = sequence.table();
        for (int i = 0; i < table.count(); i++) {
            pool(table.tier()).quarantine(table.block(i), sequence.key());
        }
        table.clear();
    }

    /** Moves the computed KV to a tier; empty, and nothing is changed, when that tier has no room. */
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
     * Checks that every block is free or owned by exactly one of the live sequences; for tests and idle moments.
     *
     * @throws IllegalStateException that names the block and the owner
     */
    public void checkIntegrity(Collection<Sequence> live) {
        gpu.checkIntegrity();
        host.checkIntegrity();
        Map<KvTier, Integer> held = new EnumMap<>(KvTier.class);
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
            int blocks = held.getOrDefault(tier, 0);
            if (blocks != pool(tier).used()) {
                throw new IllegalStateException(tier + " pool: sequences hold " + blocks + " of "
                        + pool(tier).used() + " used blocks");
            }
        }
    }
}
