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
 * <p>Full blocks are shared: a block that somebody may write belongs to one sequence. Each tier has a
 * {@link PrefixTree} of its own.
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
    private final PrefixHashes hashes;
    /** Null when no KV is shared. */
    private final @Nullable PrefixTree gpuPrefixes;

    /** Null when no KV is shared. */
    private final @Nullable PrefixTree hostPrefixes;

    /** Null when events are not recorded. */
    private final @Nullable KvEventLog events;

    private final long maxShared;
    private final PrefixDemotion demotion;
    /** Sequences with prompt blocks that are not registered yet. */
    private final List<Sequence> pending = new ArrayList<>();

    private long queries;
    private long gpuHits;
    private long hostHits;
    private long copiedHits;

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
        this.hashes = new PrefixHashes(gpuBlockTokens, options.seed());
        long mask = options.hashMask();
        this.events = options.enabled() && options.events() ? new KvEventLog(gpuBlockTokens, layout) : null;
        this.gpuPrefixes =
                options.enabled() ? new PrefixTree(gpuBlockTokens, gpuBlocks, mask, hashes, log(KvTier.GPU)) : null;
        this.hostPrefixes =
                options.enabled() ? new PrefixTree(hostBlockTokens, hostBlocks, mask, hashes, log(KvTier.HOST)) : null;
        this.gpu = new BlockPool(KvTier.GPU, gpuBlocks, layout.slides(), this::evictFromGpu);
        this.host = new BlockPool(KvTier.HOST, hostBlocks, layout.slides(), node -> drop(KvTier.HOST, node));
        this.demotion = new PrefixDemotion(gpu, host, hostBlockTokens / gpuBlockTokens, layout.groups());
    }

    private KvEventLog.@Nullable TierLog log(KvTier tier) {
        return events == null ? null : events.of(tier);
    }

    private void evictFromGpu(PrefixNode node) {
        if (gpuPrefixes != null) {
            gpuPrefixes.drop(node, dropped -> {
                demotion.noteEviction(dropped.hash);
                gpu.unregister(dropped);
            });
        }
    }

    /** Drops a node and its descendants from the tree; blocks that nobody refers to become free. */
    private void drop(KvTier tier, PrefixNode node) {
        PrefixTree prefixes = prefixes(tier);
        if (prefixes != null) {
            prefixes.drop(node, pool(tier)::unregister);
        }
    }

    /** The tree of a tier; null when no KV is shared. */
    @Nullable
    PrefixTree prefixes(KvTier tier) {
        return switch (tier) {
            case GPU -> gpuPrefixes;
            case HOST -> hostPrefixes;
        };
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
            blocks += kind.groups() * (end - firstHeld(tier, kind, computed));
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
            Arrays.fill(first, kind.first(), kind.end(), firstHeld(tier, kind, computed));
        }
        return first;
    }

    /** Index of the first block that a sequence holds in each group of a kind. */
    int firstHeld(KvTier tier, KvLayout.Kind kind, int computed) {
        return kind.window().start(computed) / blockTokens(tier);
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
        return gpuPrefixes != null;
    }

    @Override
    public long maxShared(KvTier tier) {
        return tier == KvTier.GPU ? maxShared : Long.MAX_VALUE;
    }

    @Override
    public int[] hit(Sequence sequence, KvTier tier) {
        PrefixTree prefixes = prefixes(tier);
        if (prefixes == null || !sequence.request().caching().enabled()) {
            return NO_BLOCKS;
        }
        BlockTable.Found found = sequence.table().found(tier);
        PrefixNode node = complete(tier, longestHit(prefixes, sequence, found.node, maxHit(sequence, tier)));
        if (node != found.node || found.blocks.length != depth(node) * layout.groups()) {
            found.node = node;
            found.blocks = path(node);
        }
        return found.blocks;
    }

    /** Max blocks of a sequence's hit. */
    private int maxHit(Sequence sequence, KvTier tier) {
        // a waiting sequence's last token is computed in any case, because its logits yield the next
        int computes = tier == KvTier.GPU ? 1 : 2;
        int tokens = sequence.table().isEmpty() ? sequence.length() - computes : sequence.computed();
        return Math.max(0, Math.min(tokens, sequence.known())) / blockTokens(tier);
    }

    /**
     * The last node of the sequence's prefix that is in the cache; null when there is none.
     *
     * @param earlier the hit of an earlier call, most of which is there still
     */
    private static @Nullable PrefixNode longestHit(
            PrefixTree tree, Sequence sequence, @Nullable PrefixNode earlier, int max) {
        PrefixNode found = earlier;
        while (found != null && (!found.attached || found.depth > max)) {
            found = found.previous();
        }
        PrefixNode next = found == null ? tree.root(sequence.request().caching().salt()) : found;
        while (next != null && next.depth < max) {
            next = tree.child(next, sequence);
            found = next == null ? found : next;
        }
        return found;
    }

    /**
     * The last node up to {@code last} at which the cache has all blocks that a sequence then holds; null when there is
     * none. Behind windows blocks may be absent.
     */
    private @Nullable PrefixNode complete(KvTier tier, @Nullable PrefixNode last) {
        if (last == null || !last.lacksBlocks) {
            return last;
        }
        PrefixNode[] path = new PrefixNode[last.depth];
        for (PrefixNode node = last; node != null; node = node.previous()) {
            path[node.depth - 1] = node;
        }
        int[] present = new int[kinds.length]; // index after the last absent block, by kind
        PrefixNode found = null;
        for (PrefixNode node : path) {
            boolean all = true;
            for (int i = 0; i < kinds.length; i++) {
                present[i] = node.has(kinds[i].first()) ? present[i] : node.depth;
                all &= present[i] <= firstHeld(tier, kinds[i], node.depth * blockTokens(tier));
            }
            found = all ? node : found;
        }
        return found;
    }

    private static int depth(@Nullable PrefixNode node) {
        return node == null ? 0 : node.depth;
    }

    private int[] path(@Nullable PrefixNode last) {
        int groups = layout.groups();
        int[] blocks = new int[depth(last) * groups];
        for (PrefixNode node = last; node != null; node = node.previous()) {
            System.arraycopy(node.blocks, 0, blocks, (node.depth - 1) * groups, groups);
        }
        return blocks;
    }

    @Override
    public List<Sequence> pending() {
        return pending;
    }

    @Override
    public boolean willRegister(Sequence pendingOne, KvTier tier, Sequence waiting, int tokens) {
        int each = blockTokens(tier);
        int index = blocksFor(tier, tokens) * (each / gpuBlockTokens) - 1;
        long[] own = hashes.ofPrompt(pendingOne);
        long[] others = hashes.ofPrompt(waiting);
        return index >= 0 && index < own.length && index < others.length && own[index] == others[index];
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
        if (sequence.startAt(use.tokens()) && table.registers()) {
            count(sequence, use);
        }
        long[] prompt = table.registers() ? hashes.ofPrompt(sequence) : new long[0];
        if (prompt.length * gpuBlockTokens > use.shared() * blockTokens(use.tier())) {
            table.pending(true);
            pending.add(sequence);
        }
    }

    private void count(Sequence sequence, PrefixUse use) {
        int shared = use.shared() * blockTokens(use.tier());
        queries += sequence.length();
        gpuHits += use.tier() == KvTier.GPU ? shared : 0;
        hostHits += use.tier() == KvTier.HOST ? shared : 0;
        copiedHits += use.tokens() - shared;
        long[] prompt = hashes.ofPrompt(sequence);
        int next = use.tokens() / gpuBlockTokens;
        boolean fromHost = use.tokens() > 0 && (use.tier() == KvTier.HOST || use.copies());
        demotion.noteStart(fromHost || next < prompt.length && demotion.wasEvicted(prompt[next]));
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
        PrefixNode node = use.shared() == 0 ? null : table.found(use.tier()).node;
        while (node != null && node.depth > use.shared()) {
            node = node.previous();
        }
        table.node(node);
        table.hits(use.shared());
        table.registers(cachesPrefixes() && sequence.request().caching().enabled());
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
        return hostPrefixes == null ? List.of() : demotion.demote(hostPrefixes, maxBlocks);
    }

    /**
     * Lets later sequences hit the sequence's full blocks. Where another sequence has registered the same tokens
     * before, the sequence refers to that one's block from now on, and its own is freed: steps that were submitted
     * before may still read it, and later ones write it after them.
     *
     * @param tokens from the start whose KV is computed, by steps whose results are known
     */
    public void register(Sequence sequence, int tokens) {
        BlockTable table = sequence.table();
        PrefixTree prefixes = prefixes(table.tier());
        if (prefixes == null || !table.registers()) {
            return;
        }
        PrefixNode last = table.node();
        if (last != null && !last.attached) { // it is wrong, or a block of its prefix was granted to another
            stopRegistering(sequence);
            return;
        }
        int full = Math.min(tokens, sequence.known()) / blockTokens(table.tier());
        // the last node has a block, for the first group has the widest window: nothing would drop it else
        if (full > Math.max(depth(last), table.group(0).first())) {
            PrefixNode parent = last == null
                    ? prefixes.rootToExtend(sequence.request().caching().salt())
                    : last;
            while (parent.depth < full) {
                PrefixNode node = registered(prefixes, parent, sequence);
                if (node == null) {
                    break;
                }
                parent = node;
                table.node(node);
            }
        }
        if (table.isPending() && tokens >= hashes.ofPrompt(sequence).length * gpuBlockTokens) {
            endPending(sequence);
        }
    }

    /** The node of the sequence's block after {@code parent}; null when the block cannot be shared. */
    private @Nullable PrefixNode registered(PrefixTree prefixes, PrefixNode parent, Sequence sequence) {
        BlockTable table = sequence.table();
        BlockPool pool = pool(table.tier());
        int index = parent.depth;
        PrefixNode node = prefixes.child(parent, sequence);
        if (node == null) {
            int[] own = new int[layout.groups()];
            Arrays.setAll(own, group -> own(table.group(group), index));
            node = prefixes.add(parent, sequence, own);
            for (int block : own) {
                if (block != PrefixNode.ABSENT) {
                    pool.register(block, node);
                }
            }
        } else if (pool.shared() + referenced(pool, node) <= maxShared(table.tier())) {
            for (int group = 0; group < node.blocks.length; group++) {
                int own = own(table.group(group), index);
                if (own == PrefixNode.ABSENT) {
                    continue;
                }
                if (!node.has(group)) {
                    prefixes.fill(node, group, own);
                    pool.register(own, node);
                    continue;
                }
                pool.share(node.blocks[group], sequence.key());
                table.group(group).replace(index, node.blocks[group]);
                pool.give(own, sequence.key());
            }
        } else {
            return null;
        }
        return node;
    }

    private static int own(GroupTable blocks, int index) {
        return index < blocks.first() ? PrefixNode.ABSENT : blocks.block(index);
    }

    /** Blocks of a node that sequences refer to. */
    private static int referenced(BlockPool pool, PrefixNode node) {
        int count = 0;
        for (int block : node.blocks) {
            count += block != PrefixNode.ABSENT && pool.references(block) > 0 ? 1 : 0;
        }
        return count;
    }

    private void stopRegistering(Sequence sequence) {
        sequence.table().registers(false);
        endPending(sequence);
    }

    private void endPending(Sequence sequence) {
        if (sequence.table().isPending()) {
            sequence.table().pending(false);
            pending.remove(sequence);
        }
    }

    /**
     * Lets no later sequence hit the blocks that the sequence has computed in its tier, nor anything after them. What a
     * host sequence had computed on the GPU is right: tokens have been sampled from it.
     */
    public void purge(Sequence sequence) {
        BlockTable table = sequence.table();
        PrefixTree prefixes = prefixes(table.tier());
        if (prefixes == null) {
            return;
        }
        // by its tokens, because the sequence may have ended, and others may have registered the same
        stopRegistering(sequence);
        int each = blockTokens(table.tier());
        PrefixNode node = prefixes.root(sequence.request().caching().salt());
        while (node != null && node.depth < table.hits() + 1) {
            node = (node.depth + 1) * each <= sequence.known() ? prefixes.child(node, sequence) : null;
        }
        if (node != null) {
            prefixes.drop(node, dropped -> {
                pool(table.tier()).unregister(dropped);
                if (dropped.hostCopy != null && dropped.hostCopy.attached) {
                    drop(KvTier.HOST, dropped.hostCopy);
                }
            });
        }
    }

    /** Empties the prefix cache: nothing that was computed before is hit afterwards. */
    public void resetPrefixes(Collection<Sequence> live) {
        if (gpuPrefixes != null && hostPrefixes != null) {
            gpuPrefixes.clear(gpu::unregister);
            hostPrefixes.clear(host::unregister);
            live.forEach(this::stopRegistering);
            if (events != null) {
                events.cleared();
            }
        }
    }

    /** What has entered and left the prefix caches since the last call; empty where events are not recorded. */
    public List<KvEvent> takeEvents() {
        return events == null ? List.of() : events.take();
    }

    @Override
    public PrefixCacheUse prefixCacheUse() {
        return new PrefixCacheUse(
                queries,
                gpuHits,
                hostHits,
                copiedHits,
                PrefixCacheUse.Tier.of(gpu, layout.groups()),
                PrefixCacheUse.Tier.of(host, layout.groups()),
                demotion.blocks());
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
            int next = firstHeld(table.tier(), kind, sequence.computed());
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
        endPending(sequence);
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
