package dev.tandem.engine.kv;

import dev.tandem.engine.request.Sequence;
import java.util.Arrays;
import java.util.Collection;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * Grants, moves and frees KV blocks, and shares those of equal prefixes. All blocks of a sequence are in one tier.
 *
 * <p>Full GPU blocks are shared: a block that somebody may write belongs to one sequence. Host blocks are not shared.
 *
 * <p>Owned by: engine thread.
 */
public final class KvCache implements KvCapacity {
    private static final int[] NO_BLOCKS = {};

    private final int gpuBlockTokens;
    private final int hostBlockTokens;
    private final PrefillStaging staging;
    private final BlockPool gpu;
    private final BlockPool host;
    /** Null when no KV is shared. */
    private final @Nullable PrefixTree prefixes;

    private final long maxShared;
    private long queries;
    private long hits;

    /**
     * Creates a cache whose blocks have the same number of tokens in both tiers, that stages no prefills and shares no
     * KV.
     */
    public KvCache(int blockTokens, int gpuBlocks, int hostBlocks) {
        this(blockTokens, blockTokens, gpuBlocks, hostBlocks, PrefillStaging.NONE, PrefixCacheOptions.OFF, 0);
    }

    /**
     * Creates a cache whose blocks are all free.
     *
     * @param gpuBlockTokens tokens per GPU block
     * @param hostBlockTokens tokens per host block
     * @param staging how many GPU blocks a step borrows to offload prefills
     * @param options whether and how KV is shared
     * @param maxShared max references to GPU blocks beyond the first of each
     */
    public KvCache(
            int gpuBlockTokens,
            int hostBlockTokens,
            int gpuBlocks,
            int hostBlocks,
            PrefillStaging staging,
            PrefixCacheOptions options,
            long maxShared) {
        this.gpuBlockTokens = gpuBlockTokens;
        this.hostBlockTokens = hostBlockTokens;
        this.staging = staging;
        this.maxShared = maxShared;
        this.prefixes = options.enabled() ? new PrefixTree(gpuBlockTokens, gpuBlocks, options) : null;
        this.gpu = new BlockPool(KvTier.GPU, gpuBlocks, this::drop);
        this.host = new BlockPool(KvTier.HOST, hostBlocks);
    }

    /** Drops a node and its descendants from the tree; blocks that nobody refers to become free. */
    private void drop(PrefixNode node) {
        if (prefixes != null) {
            prefixes.drop(node, gpu::unregister);
        }
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

    @Override
    public boolean cachesPrefixes() {
        return prefixes != null;
    }

    @Override
    public long maxShared() {
        return maxShared;
    }

    @Override
    public int[] hit(Sequence waiting) {
        if (prefixes == null || !waiting.request().caching().enabled()) {
            return NO_BLOCKS;
        }
        BlockTable table = waiting.table();
        PrefixNode node = longestHit(prefixes, waiting);
        if (node != table.node() || table.hitBlocks().length != depth(node)) {
            table.node(node);
            table.hitBlocks(path(node));
        }
        return table.hitBlocks();
    }

    /** The last node of the sequence's prefix that is in the cache; null when there is none. */
    private @Nullable PrefixNode longestHit(PrefixTree tree, Sequence waiting) {
        // the last token is computed in any case, because its logits yield the next
        int max = Math.min(waiting.length() - 1, waiting.known()) / gpuBlockTokens;
        PrefixNode found = waiting.table().node(); // the hit of an earlier call, most of which is there still
        while (found != null && (!found.attached || found.depth > max)) {
            found = found.previous();
        }
        PrefixNode next = found == null ? tree.root(waiting.request().caching().salt()) : found;
        while (next != null && next.depth < max) {
            next = tree.child(next, waiting);
            found = next == null ? found : next;
        }
        return found;
    }

    private static int depth(@Nullable PrefixNode node) {
        return node == null ? 0 : node.depth;
    }

    private static int[] path(@Nullable PrefixNode last) {
        int[] blocks = new int[depth(last)];
        for (PrefixNode node = last; node != null; node = node.previous()) {
            blocks[node.depth - 1] = node.block;
        }
        return blocks;
    }

    /**
     * Gives a waiting sequence its tier and, on the GPU, the first blocks of its {@link #hit}.
     *
     * @param hitBlocks how many; all of the hit or none
     */
    public void start(Sequence sequence, KvTier tier, int hitBlocks) {
        int[] hit = hitBlocks == 0 ? NO_BLOCKS : hit(sequence);
        if (hit.length != hitBlocks) {
            throw new IllegalStateException(sequence + " hits " + hit.length + " blocks of the prefix cache, and the"
                    + " draft counts on " + hitBlocks);
        }
        BlockTable table = sequence.table();
        table.tier(tier);
        for (int block : hit) {
            gpu.share(block, sequence.key());
            table.add(block);
        }
        table.hits(hit.length);
        if (hit.length == 0) {
            table.node(null);
        }
        table.registers(registersOn(tier, sequence));
        if (sequence.startAt(hit.length * gpuBlockTokens) && table.registers()) {
            queries += sequence.length();
            hits += sequence.computed();
        }
    }

    private boolean registersOn(KvTier tier, Sequence sequence) {
        return tier == KvTier.GPU
                && prefixes != null
                && sequence.request().caching().enabled();
    }

    /**
     * Lets later sequences hit the sequence's full GPU blocks. Where another sequence has registered the same tokens
     * before, the sequence refers to that one's block from now on, and its own is freed: steps that were submitted
     * before may still read it, and later ones write it after them.
     *
     * @param tokens from the start whose KV is computed, by steps whose results are known
     */
    public void register(Sequence sequence, int tokens) {
        BlockTable table = sequence.table();
        if (prefixes == null || !table.registers()) {
            return;
        }
        PrefixNode last = table.node();
        if (last != null && !last.attached) {
            table.registers(false); // its prefix was dropped, because it is wrong
            return;
        }
        int full = Math.min(tokens, sequence.known()) / gpuBlockTokens;
        if (full <= depth(last)) {
            return;
        }
        PrefixNode parent = last == null
                ? prefixes.rootToExtend(sequence.request().caching().salt())
                : last;
        while (parent.depth < full) {
            int index = parent.depth;
            int own = table.block(index);
            PrefixNode node = prefixes.child(parent, sequence);
            if (node == null) {
                node = prefixes.add(parent, sequence, own);
                gpu.register(own, node);
            } else if (gpu.shared() < maxShared || gpu.references(node.block) == 0) {
                gpu.share(node.block, sequence.key());
                table.replace(index, node.block);
                gpu.give(own, sequence.key());
            } else {
                break;
            }
            parent = node;
            table.node(node);
        }
    }

    /**
     * Lets no later sequence hit the blocks that the sequence has computed on the GPU, nor anything after them. What a
     * host sequence had computed there is right: tokens have been sampled from it.
     */
    public void purge(Sequence sequence) {
        if (prefixes == null || sequence.table().tier() == KvTier.HOST) {
            return;
        }
        // by its tokens, because the sequence may have ended, and others may have registered the same
        sequence.table().registers(false);
        PrefixNode node = prefixes.root(sequence.request().caching().salt());
        while (node != null && node.depth < sequence.table().hits() + 1) {
            node = (node.depth + 1) * gpuBlockTokens <= sequence.known() ? prefixes.child(node, sequence) : null;
        }
        if (node != null) {
            drop(node);
        }
    }

    /** Empties the prefix cache: nothing that was computed before is hit afterwards. */
    public void resetPrefixes(Collection<Sequence> live) {
        if (prefixes != null) {
            prefixes.clear(gpu::unregister);
            live.forEach(sequence -> sequence.table().registers(false));
        }
    }

    @Override
    public PrefixCacheUse prefixCacheUse() {
        return new PrefixCacheUse(queries, hits, gpu.cached(), gpu.evictions());
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

    /**
     * Takes the blocks that the sequence writes out of use for good, because a worker or the device may still write
     * them; releases those that it only reads.
     */
    public void quarantine(Sequence sequence) {
        BlockTable table = sequence.table();
        for (int i = table.count() - 1; i >= 0; i--) {
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
        table.node(null);
        table.hits(0);
        table.registers(registersOn(to, sequence));
        for (int i = 0; i < needed; i++) {
            table.add(pool(to).take(sequence.key()));
        }
        return Optional.of(new Swap(sequence.key(), from, source, to, table.toArray(), sequence.computed()));
    }

    /**
     * Checks that every block is in one state, that pools and tables agree, and that shared blocks hold the tokens of
     * all sequences that refer to them; for tests and idle moments.
     *
     * @throws IllegalStateException that names the block or the sequence
     */
    public void checkIntegrity(Collection<Sequence> live) {
        for (KvTier tier : KvTier.values()) {
            BlockPool pool = pool(tier);
            int[] references = new int[pool.size()];
            long[] holders = new long[pool.size()];
            for (Sequence sequence : live) {
                BlockTable table = sequence.table();
                for (int i = 0; table.tier() == tier && i < table.count(); i++) {
                    references[table.block(i)]++;
                    holders[table.block(i)] ^= sequence.key() + 1;
                }
            }
            pool.checkIntegrity(references, holders);
        }
        live.forEach(this::checkTable);
    }

    private void checkTable(Sequence sequence) {
        BlockTable table = sequence.table();
        if (table.count() < blocksFor(table.tier(), sequence.computed())) {
            throw new IllegalStateException(sequence + " has " + table.count() + " blocks, too few for its KV");
        }
        if (table.count() == 0) {
            return;
        }
        int written = sequence.computed() / blockTokens(table.tier());
        for (int i = written; i < table.count(); i++) {
            int block = table.block(i);
            BlockPool pool = pool(table.tier());
            if (pool.references(block) != 1 || pool.node(block) != null) {
                throw new IllegalStateException(sequence + " may write block " + block + ", which others may read");
            }
        }
        if (prefixes == null || !table.registers()) {
            return;
        }
        PrefixNode node = table.node();
        if (node == null || !node.attached) {
            return;
        }
        String salt = sequence.request().caching().salt();
        for (PrefixNode at = node; at != null; at = at.previous()) {
            int from = (at.depth - 1) * gpuBlockTokens;
            boolean wrongRoot = at.depth == 1 && at.parent != prefixes.root(salt);
            if (table.block(at.depth - 1) != at.block
                    || wrongRoot
                    || !Arrays.equals(at.tokens, sequence.tokens(from, gpuBlockTokens))) {
                throw new IllegalStateException(sequence + " has block " + table.block(at.depth - 1) + " at " + from
                        + ", which is not the block of its prefix and salt");
            }
        }
    }
}
