package dev.tandem.engine.kv;

import dev.tandem.engine.request.Sequence;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Grants, moves and frees KV blocks, and shares those of equal prefixes. All blocks of a sequence are in one tier.
 *
 * <p>Full blocks are shared: a block that somebody may write belongs to one sequence. {@link PrefixCache} says which
 * blocks hold which prefix.
 *
 * <p>Owned by: engine thread.
 */
public final class KvCache implements KvCapacity {
    private static final int[] NO_BLOCKS = {};

    private final int gpuBlockTokens;
    private final int hostBlockTokens;
    private final PrefillStaging staging;
    private final KvLayout layout;
    /** [kinds] those of the layout; planning reads them for every sequence, so they are an array. */
    private final KvLayout.Kind[] kinds;
    /** [groups] zeros. */
    private final int[] fromStart;

    private final AttentionSpan span;
    private final BlockPool gpu;
    private final BlockPool host;
    private final long maxShared;
    /** Null when no KV is shared. */
    private final @Nullable PrefixCache prefixes;

    /**
     * Creates a cache whose blocks have the same number of tokens in both tiers, that stages no prefills and shares no
     * KV.
     */
    public KvCache(int blockTokens, int gpuBlocks, int hostBlocks) {
        this(blockTokens, blockTokens, gpuBlocks, hostBlocks, PrefillStaging.NONE, PrefixCacheOptions.OFF, 0);
    }

    /** Creates a cache for a model whose layers attend to all tokens. */
    public KvCache(
            int gpuBlockTokens,
            int hostBlockTokens,
            int gpuBlocks,
            int hostBlocks,
            PrefillStaging staging,
            PrefixCacheOptions options,
            long maxShared) {
        this(
                gpuBlockTokens,
                hostBlockTokens,
                gpuBlocks,
                hostBlocks,
                staging,
                options,
                maxShared,
                KvLayout.of(KvWindow.NONE),
                AttentionSpan.WHOLE);
    }

    /**
     * Creates a cache whose blocks are all free.
     *
     * @param gpuBlockTokens tokens per GPU block
     * @param hostBlockTokens tokens per host block
     * @param staging how many GPU blocks a step borrows to offload prefills
     * @param options whether and how KV is shared
     * @param maxShared max references to GPU blocks beyond the first of each
     * @param layout which part of its KV a sequence holds, by group of layers; each block of a pool is for one group
     * @param span how many tokens attention reads
     * @throws IllegalArgumentException when KV is shared and a host block does not hold a whole number of GPU blocks,
     *     or the window does not free whole blocks
     */
    public KvCache(
            int gpuBlockTokens,
            int hostBlockTokens,
            int gpuBlocks,
            int hostBlocks,
            PrefillStaging staging,
            PrefixCacheOptions options,
            long maxShared,
            KvLayout layout,
            AttentionSpan span) {
        if (options.enabled() && hostBlockTokens % gpuBlockTokens != 0) {
            throw new IllegalArgumentException(
                    "host blocks have " + hostBlockTokens + " tokens, which is no multiple of" + " the "
                            + gpuBlockTokens + " tokens of GPU blocks; change the sizes or turn the prefix cache off");
        }
        for (KvLayout.Kind kind : layout.kinds()) {
            int unit = kind.window().unit();
            if (kind.window().slides() && (unit % gpuBlockTokens != 0 || unit % hostBlockTokens != 0)) {
                throw new IllegalArgumentException("KV behind a window is freed " + unit
                        + " tokens at a time, which is no multiple of the " + gpuBlockTokens
                        + " tokens of GPU blocks and the "
                        + hostBlockTokens + " tokens of host blocks; change the sizes");
            }
        }
        this.layout = layout;
        this.kinds = layout.kinds().toArray(new KvLayout.Kind[0]);
        this.fromStart = new int[layout.groups()];
        this.span = span;
        this.gpuBlockTokens = gpuBlockTokens;
        this.hostBlockTokens = hostBlockTokens;
        this.staging = staging;
        this.maxShared = maxShared;
        this.gpu = new BlockPool(KvTier.GPU, gpuBlocks, layout.slides(), node -> evict(KvTier.GPU, node));
        this.host = new BlockPool(KvTier.HOST, hostBlocks, layout.slides(), node -> evict(KvTier.HOST, node));
        this.prefixes = options.enabled()
                ? new PrefixCache(layout, gpu, gpuBlockTokens, host, hostBlockTokens, options, maxShared)
                : null;
    }

    private void evict(KvTier tier, PrefixNode node) {
        if (prefixes != null) {
            prefixes.evict(tier, node);
        }
    }

    /** Which blocks hold which prefix; null when no KV is shared. */
    @Nullable
    PrefixCache prefixes() {
        return prefixes;
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
    public KvLayout layout() {
        return layout;
    }

    @Override
    public AttentionSpan span() {
        return span;
    }

    @Override
    public int held(KvTier tier, int computed, int length) {
        int blocks = 0;
        for (KvLayout.Kind kind : kinds) {
            int end = blocksFor(tier, kind.window().end(computed, length));
            blocks += kind.groups() * (end - kind.firstHeld(computed, blockTokens(tier)));
        }
        return blocks;
    }

    @Override
    public int maxHeld(KvTier tier, int length) {
        return layout.maxHeld(length, blockTokens(tier));
    }

    @Override
    public int[] firstHeld(KvTier tier, int computed) {
        if (!layout.slides()) {
            return fromStart;
        }
        int[] first = new int[layout.groups()];
        for (KvLayout.Kind kind : kinds) {
            Arrays.fill(first, kind.first(), kind.end(), kind.firstHeld(computed, blockTokens(tier)));
        }
        return first;
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
        if (kinds.length == 1) { // asked for every sequence of a plan
            return missing(sequence, kinds[0], tokens);
        }
        int missing = 0;
        for (KvLayout.Kind kind : kinds) {
            missing += kind.groups() * missing(sequence, kind, tokens);
        }
        return missing;
    }

    /** Blocks that the sequence lacks in each group of a kind. */
    private int missing(Sequence sequence, KvLayout.Kind kind, int tokens) {
        BlockTable table = sequence.table();
        int end = blocksFor(table.tier(), kind.window().end(sequence.computed(), tokens));
        return Math.max(0, end - table.group(kind.first()).end());
    }

    @Override
    public boolean cachesPrefixes() {
        return prefixes != null;
    }

    @Override
    public long maxShared(KvTier tier) {
        return tier == KvTier.GPU ? maxShared : Long.MAX_VALUE;
    }

    @Override
    public int[] hit(Sequence sequence, KvTier tier) {
        return prefixes == null ? NO_BLOCKS : prefixes.hit(sequence, tier);
    }

    @Override
    public List<Sequence> pending() {
        return prefixes == null ? List.of() : prefixes.pending();
    }

    @Override
    public boolean willRegister(Sequence pending, KvTier tier, Sequence waiting, int tokens) {
        return prefixes != null && prefixes.willRegister(pending, tier, waiting, tokens);
    }

    /**
     * Has a sequence refer to the blocks of a use before any block is granted, so that none of them is evicted. The
     * caller then calls {@link #start} or {@link #move}.
     */
    public void claim(Sequence sequence, PrefixUse use) {
        for (int group = 0; group < use.first().length; group++) {
            for (int i = use.first()[group]; i < use.shared(); i++) {
                pool(use.tier()).share(use.block(group, i), sequence.key());
            }
            // the prefix is hit again only while these are there too
            for (int i = Math.min(use.first()[group], use.shared()) - 1; i >= 0; i--) {
                if (use.block(group, i) != PrefixUse.ABSENT) {
                    pool(use.tier()).touch(use.block(group, i));
                }
            }
        }
        if (use.copies()) {
            for (int i = 0; i < use.sources(); i++) {
                if (use.other()[i] != PrefixUse.ABSENT) {
                    pool(use.tier().other()).share(use.other()[i], sequence.key());
                }
            }
        }
    }

    /** Ends the references to blocks that were copied; what was copied stays in the cache. */
    public void endCopy(Sequence sequence, PrefixUse use) {
        for (int i = use.sources() - 1; i >= 0; i--) {
            if (use.other()[i] != PrefixUse.ABSENT) {
                pool(use.tier().other()).give(use.other()[i], sequence.key());
            }
        }
    }

    /** Gives a waiting sequence its tier and the shared blocks of a use that it has claimed. */
    public void start(Sequence sequence, PrefixUse use) {
        BlockTable table = sequence.table();
        table.tier(use.tier());
        list(sequence, use, use.tokens());
        int shared = use.shared() * blockTokens(use.tier());
        boolean first = sequence.startAt(use.tokens(), use.tier() == KvTier.HOST ? shared : use.tokens() - shared);
        if (prefixes != null) {
            prefixes.started(sequence, use, first);
        }
    }

    /** Lists the shared blocks of a use in the sequence's table, which is empty. */
    private void list(Sequence sequence, PrefixUse use, int computed) {
        BlockTable table = sequence.table();
        int[] first = firstHeld(use.tier(), computed);
        for (int group = 0; group < first.length; group++) {
            table.group(group).first(first[group]);
        }
        for (int group = 0; group < use.first().length; group++) {
            for (int i = use.first()[group]; i < use.shared(); i++) {
                table.group(group).add(use.block(group, i));
            }
        }
        if (prefixes != null) {
            prefixes.begins(sequence, use);
        }
    }

    /**
     * Grants blocks for the tokens that a started sequence copies from the other tier.
     *
     * @return a copy per group of layers; empty, and nothing is changed, when the blocks are not free
     */
    public List<Swap> copy(Sequence sequence, PrefixUse use) {
        BlockTable table = sequence.table();
        if (!grow(sequence, use.tokens())) {
            return List.of();
        }
        KvTier from = use.tier().other();
        int end = blocksFor(use.tier(), use.tokens());
        List<Swap> copies = new ArrayList<>(use.first().length);
        for (int group = 0; group < use.first().length; group++) {
            GroupTable blocks = table.group(group);
            int own = Math.max(use.shared(), blocks.first());
            int[] to = Arrays.copyOfRange(blocks.view().blocks(), own - blocks.first(), end - blocks.first());
            int tokens = use.tokens() - own * blockTokens(use.tier());
            copies.add(new Swap(sequence.key(), from, use.copied(group), use.tier(), to, tokens));
        }
        return copies;
    }

    /**
     * Copies prefixes of cached GPU blocks, which will be dropped soon, to empty host blocks or to those of older
     * prefixes; only while requests come back for prefixes that were dropped.
     *
     * @param maxBlocks max host blocks, each of a page per group of layers
     * @return the copies; empty when there is nothing to do
     */
    public List<Swap> demote(int maxBlocks) {
        return prefixes == null ? List.of() : prefixes.demote(maxBlocks);
    }

    /**
     * Lets later sequences hit the sequence's full blocks. Where another sequence has registered the same tokens
     * before, the sequence refers to that one's block from now on, and its own is freed: steps that were submitted
     * before may still read it, and later ones write it after them.
     *
     * @param tokens from the start whose KV is computed, by steps whose results are known
     */
    public void register(Sequence sequence, int tokens) {
        if (prefixes != null) {
            prefixes.register(sequence, tokens);
        }
    }

    /**
     * Lets no later sequence hit the blocks that the sequence has computed in its tier, nor anything after them. What a
     * host sequence had computed on the GPU is right: tokens have been sampled from it.
     */
    public void purge(Sequence sequence) {
        if (prefixes != null) {
            prefixes.purge(sequence);
        }
    }

    /** Empties the prefix cache: nothing that was computed before is hit afterwards. */
    public void resetPrefixes(Collection<Sequence> live) {
        if (prefixes != null) {
            prefixes.reset(live);
        }
    }

    /** What has entered and left the prefix caches since the last call; empty where events are not recorded. */
    public List<KvEvent> takeEvents() {
        return prefixes == null ? List.of() : prefixes.takeEvents();
    }

    @Override
    public PrefixCacheUse prefixCacheUse() {
        return prefixes == null ? PrefixCacheUse.NONE : prefixes.use();
    }

    /**
     * Grants the blocks that the sequence lacks for {@code tokens} tokens; grants none and returns false when they are
     * not free.
     */
    public boolean grow(Sequence sequence, int tokens) {
        int missing = missing(sequence, tokens);
        if (missing > pool(sequence.table().tier()).free()) {
            return false;
        }
        if (missing > 0) {
            for (KvLayout.Kind kind : kinds) {
                take(sequence, kind, missing(sequence, kind, tokens));
            }
        }
        return true;
    }

    /** Grants as many free blocks in each group of a kind. */
    private void take(Sequence sequence, KvLayout.Kind kind, int blocks) {
        BlockTable table = sequence.table();
        for (int group = kind.first(); group < kind.end(); group++) {
            for (int i = 0; i < blocks; i++) {
                table.group(group).add(pool(table.tier()).take(sequence.key()));
            }
        }
    }

    /**
     * Frees all blocks of the sequence, the last one first. The next owner gets them in ascending order, so that copies
     * of adjacent blocks can be merged.
     */
    public void release(Sequence sequence) {
        BlockTable table = sequence.table();
        BlockPool pool = pool(table.tier());
        for (int group = table.groups() - 1; group >= 0; group--) {
            GroupTable blocks = table.group(group);
            for (int i = blocks.end() - 1; i >= blocks.first(); i--) {
                pool.give(blocks.block(i), sequence.key());
            }
        }
        clear(sequence);
    }

    /**
     * Frees the blocks behind the window of the sequence's next token. Each of them that is registered stays in the
     * prefix cache. A prompt that does not hold blocks for all of its tokens yet gets as many at its end.
     *
     * <p>Steps that were submitted before may still read the blocks, and later ones write them after them.
     */
    public void slide(Sequence sequence) {
        BlockTable table = sequence.table();
        boolean freed = false;
        for (KvLayout.Kind kind : kinds) {
            int next = kind.firstHeld(sequence.computed(), blockTokens(table.tier()));
            if (!table.isEmpty() && next > table.group(kind.first()).first()) {
                free(sequence, kind, next);
                freed = true;
            }
        }
        if (!freed) {
            return;
        }
        // others may hold some of the blocks still, so there may be too few; planning sees what is missing
        for (KvLayout.Kind kind : kinds) {
            int free = pool(table.tier()).free() / kind.groups();
            take(sequence, kind, Math.min(missing(sequence, kind, sequence.length()), free));
        }
    }

    /** Frees a sequence's blocks before the {@code next}-th one, in each group of a kind. */
    private void free(Sequence sequence, KvLayout.Kind kind, int next) {
        BlockTable table = sequence.table();
        for (int group = kind.end() - 1; group >= kind.first(); group--) {
            GroupTable blocks = table.group(group);
            for (int i = next - 1; i >= blocks.first(); i--) {
                pool(table.tier()).give(blocks.block(i), sequence.key());
            }
            blocks.removeBefore(next);
        }
    }

    /**
     * Takes the blocks that the sequence writes out of use for good, because a worker or the device may still write
     * them; releases those that it only reads.
     */
    public void quarantine(Sequence sequence) {
        BlockTable table = sequence.table();
        for (int group = table.groups() - 1; group >= 0; group--) {
            GroupTable blocks = table.group(group);
            for (int i = blocks.end() - 1; i >= blocks.first(); i--) {
                pool(table.tier()).quarantine(blocks.block(i), sequence.key());
            }
        }
        clear(sequence);
    }

    private void clear(Sequence sequence) {
        if (prefixes != null) {
            prefixes.endPending(sequence);
        }
        sequence.table().clear();
    }

    /**
     * Moves the computed KV to the tier of a use that the sequence has claimed. Only tokens after its shared blocks are
     * copied.
     *
     * @return a copy per group of layers; empty, and nothing is changed, when that tier has no room
     */
    public List<Swap> move(Sequence sequence, PrefixUse use) {
        BlockTable table = sequence.table();
        KvTier from = table.tier();
        KvTier to = use.tier();
        int end = blocksFor(to, sequence.computed());
        int[] kept = firstHeld(to, sequence.computed()).clone();
        int needed = 0;
        for (int group = 0; group < kept.length; group++) {
            kept[group] = Math.max(use.shared(), kept[group]);
            needed += end - kept[group];
        }
        if (from == to || needed > pool(to).free()) {
            return List.of();
        }
        int[][] source = new int[kept.length][];
        for (int group = 0; group < kept.length; group++) {
            GroupTable blocks = table.group(group);
            source[group] = Arrays.copyOfRange(
                    blocks.view().blocks(),
                    kept[group] * blockTokens(to) / blockTokens(from) - blocks.first(),
                    blocksFor(from, sequence.computed()) - blocks.first());
        }
        release(sequence);
        table.tier(to);
        list(sequence, use, sequence.computed());
        List<Swap> copies = new ArrayList<>(kept.length);
        for (int group = 0; group < kept.length; group++) {
            int[] target = new int[end - kept[group]];
            for (int i = 0; i < target.length; i++) {
                target[i] = pool(to).take(sequence.key());
                table.group(group).add(target[i]);
            }
            int tokens = sequence.computed() - kept[group] * blockTokens(to);
            copies.add(new Swap(sequence.key(), from, source[group], to, target, tokens));
        }
        return copies;
    }

    /**
     * Checks that every block is in one state, that pools and tables agree, and that shared blocks hold the tokens of
     * all sequences that refer to them; for tests and idle moments.
     *
     * @throws IllegalStateException that names the block or the sequence
     */
    public void checkIntegrity(Collection<Sequence> live) {
        new KvIntegrity(this, live).check();
    }
}
