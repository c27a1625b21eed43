package dev.tandem.engine.kv;

import dev.tandem.engine.request.Sequence;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Which KV of others a sequence can use, and which of its own others can: a {@link PrefixTree} for each tier.
 *
 * <p>{@link KvCache} alone grants blocks, and has sequences refer to those that are hit; then it calls {@link #begins}.
 * Once a step's result is known, {@link #register} adds the sequence's full blocks to the tree of its tier. It replaces
 * those that the tree has already in the sequence's table. Of a table it changes nothing else but what it says of
 * prefixes.
 *
 * <p>Owned by: engine thread.
 */
final class PrefixCache {
    private static final int[] NO_BLOCKS = {};

    /**
     * The blocks of one tier, and which prefixes they hold.
     *
     * @param maxShared max references to blocks beyond the first of each
     */
    private record Tier(BlockPool pool, PrefixTree tree, int blockTokens, long maxShared) {}

    private final KvLayout layout;
    /** [kinds] those of the layout. */
    private final KvLayout.Kind[] kinds;

    private final int gpuBlockTokens;
    private final PrefixHashes hashes;
    private final Tier gpu;
    private final Tier host;
    private final PrefixDemotion demotion;
    /** Null when events are not recorded. */
    private final @Nullable KvEventLog events;
    /** Sequences with prompt blocks that are not registered yet. */
    private final List<Sequence> pending = new ArrayList<>();

    private long queries;
    private long gpuHits;
    private long hostHits;
    private long copiedToGpu;
    private long copiedToHost;

    /**
     * Creates an empty cache. The pools tell it of evictions by {@link #evict}.
     *
     * @param gpuBlockTokens tokens per GPU block
     * @param hostBlockTokens tokens per host block, a multiple of those per GPU block
     * @param maxShared max references to GPU blocks beyond the first of each
     */
    PrefixCache(
            KvLayout layout,
            BlockPool gpu,
            int gpuBlockTokens,
            BlockPool host,
            int hostBlockTokens,
            PrefixCacheOptions options,
            long maxShared) {
        this.layout = layout;
        this.kinds = layout.kinds().toArray(new KvLayout.Kind[0]);
        this.gpuBlockTokens = gpuBlockTokens;
        this.hashes = new PrefixHashes(gpuBlockTokens, options.seed());
        this.events = options.events() ? new KvEventLog(gpuBlockTokens, layout) : null;
        this.gpu = tier(gpu, gpuBlockTokens, options, maxShared);
        this.host = tier(host, hostBlockTokens, options, Long.MAX_VALUE);
        this.demotion = new PrefixDemotion(gpu, host, hostBlockTokens / gpuBlockTokens, layout.groups());
    }

    private Tier tier(BlockPool pool, int blockTokens, PrefixCacheOptions options, long maxShared) {
        KvEventLog.TierLog log = events == null ? null : events.of(pool.tier());
        PrefixTree tree = new PrefixTree(blockTokens, pool.size(), options.hashMask(), hashes, log);
        return new Tier(pool, tree, blockTokens, maxShared);
    }

    private Tier of(KvTier tier) {
        return switch (tier) {
            case GPU -> gpu;
            case HOST -> host;
        };
    }

    /** The prefixes that a tier holds. */
    PrefixTree tree(KvTier tier) {
        return of(tier).tree;
    }

    /** Drops a node, one of whose blocks is granted to another sequence, and its descendants. */
    void evict(KvTier tier, PrefixNode node) {
        switch (tier) {
            case GPU ->
                gpu.tree.drop(node, dropped -> {
                    demotion.noteEviction(dropped.hash);
                    gpu.pool.unregister(dropped);
                });
            case HOST -> drop(host, node);
        }
    }

    /** Drops a node and its descendants from the tree; blocks that nobody refers to become free. */
    private static void drop(Tier tier, PrefixNode node) {
        tier.tree.drop(node, tier.pool::unregister);
    }

    /** As {@link KvCapacity#hit}. */
    int[] hit(Sequence sequence, KvTier inTier) {
        Tier tier = of(inTier);
        BlockTable table = sequence.table();
        if (table.missed(inTier) == tier.tree.firstBlocks()) {
            return NO_BLOCKS; // a probe of the tree misses the CPU's caches (PlanningBenchmark.plan of symmetric)
        }
        if (!sequence.request().caching().enabled()) {
            return NO_BLOCKS;
        }
        BlockTable.Found found = table.found(inTier);
        int max = maxHit(sequence, tier);
        PrefixNode longest = longestHit(tier.tree, sequence, found.node, max);
        table.missed(inTier, longest == null && max > 0 ? tier.tree.firstBlocks() : -1);
        PrefixNode node = complete(tier, longest);
        if (node != found.node || found.blocks.length != depth(node) * layout.groups()) {
            found.node = node;
            found.blocks = path(node);
        }
        return found.blocks;
    }

    /** Max blocks of a sequence's hit. */
    private int maxHit(Sequence sequence, Tier tier) {
        // a waiting sequence's last token is computed in any case, because its logits yield the next
        int computes = tier == gpu ? 1 : 2;
        int tokens = sequence.table().isEmpty() ? sequence.length() - computes : sequence.computed();
        return Math.max(0, Math.min(tokens, sequence.known())) / tier.blockTokens;
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
    private @Nullable PrefixNode complete(Tier tier, @Nullable PrefixNode last) {
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
                all &= present[i] <= kinds[i].firstHeld(node.depth * tier.blockTokens, tier.blockTokens);
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
            for (int group = 0; group < groups; group++) {
                blocks[(node.depth - 1) * groups + group] = node.block(group);
            }
        }
        return blocks;
    }

    /** As {@link KvCapacity#pending}. */
    List<Sequence> pending() {
        return pending;
    }

    /** As {@link KvCapacity#willRegister}. */
    boolean willRegister(Sequence pendingOne, KvTier tier, Sequence waiting, int tokens) {
        int each = of(tier).blockTokens;
        int index = Math.ceilDiv(tokens, each) * (each / gpuBlockTokens) - 1;
        long[] own = hashes.ofPrompt(pendingOne);
        long[] others = hashes.ofPrompt(waiting);
        return index >= 0 && index < own.length && index < others.length && own[index] == others[index];
    }

    /** Says that a sequence's table begins with the shared blocks of a use, and that it registers those after them. */
    void begins(Sequence sequence, PrefixUse use) {
        BlockTable table = sequence.table();
        PrefixNode node = use.shared() == 0 ? null : table.found(use.tier()).node;
        while (node != null && node.depth > use.shared()) {
            node = node.previous();
        }
        table.node(node, of(use.tier()).blockTokens);
        table.hits(use.shared());
        table.registers(sequence.request().caching().enabled());
    }

    /**
     * Counts what a sequence that starts has hit, and notes that it will register its prompt.
     *
     * @param first whether it never started before
     */
    void started(Sequence sequence, PrefixUse use, boolean first) {
        BlockTable table = sequence.table();
        if (!table.registers()) {
            return;
        }
        int shared = use.shared() * of(use.tier()).blockTokens;
        if (first) {
            count(sequence, use, shared);
        }
        if (hashes.ofPrompt(sequence).length * gpuBlockTokens > shared) {
            table.pending(true);
            pending.add(sequence);
        }
    }

    private void count(Sequence sequence, PrefixUse use, int shared) {
        queries += sequence.length();
        int copied = use.tokens() - shared;
        switch (use.tier()) {
            case GPU -> {
                gpuHits += shared;
                copiedToGpu += copied;
            }
            case HOST -> {
                hostHits += shared;
                copiedToHost += copied;
            }
        }
        long[] prompt = hashes.ofPrompt(sequence);
        int next = use.tokens() / gpuBlockTokens;
        boolean fromHost = use.tokens() > 0 && (use.tier() == KvTier.HOST || use.copies());
        demotion.noteStart(fromHost || demotion.wasAnyEvicted(prompt, next));
    }

    /** As {@link KvCache#demote}. */
    List<Swap> demote(int maxBlocks) {
        return demotion.demote(host.tree, maxBlocks);
    }

    /** As {@link KvCache#register}. */
    void register(Sequence sequence, int tokens) {
        BlockTable table = sequence.table();
        // asked for every sequence of a step, few of which have filled a block: without this, 8.0 us for 1,000 of them
        // in place of 6.8 (PlanningBenchmark.register, docs/results/planning.jsonl)
        if (!table.registers() || tokens < table.nextFull() && !table.isPending()) {
            return;
        }
        PrefixNode last = table.node();
        if (last != null && !last.attached) { // it is wrong, or a block of its prefix was granted to another
            stopRegistering(sequence);
            return;
        }
        Tier tier = of(table.tier());
        int full = Math.min(tokens, sequence.known()) / tier.blockTokens;
        // the last node has a block, for the first group has the widest window: nothing would drop it else
        if (full > Math.max(depth(last), table.group(0).first())) {
            PrefixNode parent = last == null
                    ? tier.tree.rootToExtend(sequence.request().caching().salt())
                    : last;
            while (parent.depth < full) {
                PrefixNode node = registered(tier, parent, sequence);
                if (node == null) {
                    break;
                }
                parent = node;
                table.node(node, tier.blockTokens);
            }
        }
        if (table.isPending() && tokens >= hashes.ofPrompt(sequence).length * gpuBlockTokens) {
            endPending(sequence);
        }
    }

    /** The node of the sequence's block after {@code parent}; null when the block cannot be shared. */
    private @Nullable PrefixNode registered(Tier tier, PrefixNode parent, Sequence sequence) {
        BlockTable table = sequence.table();
        BlockPool pool = tier.pool;
        int index = parent.depth;
        PrefixNode node = tier.tree.child(parent, sequence);
        if (node == null) {
            int[] own = new int[layout.groups()];
            Arrays.setAll(own, group -> own(table.group(group), index));
            node = tier.tree.add(parent, sequence, own);
            for (int block : own) {
                if (block != PrefixNode.ABSENT) {
                    pool.register(block, node);
                }
            }
        } else if (pool.shared() + referenced(pool, node) <= tier.maxShared) {
            for (int group = 0; group < node.groups(); group++) {
                int own = own(table.group(group), index);
                if (own == PrefixNode.ABSENT) {
                    continue;
                }
                if (!node.has(group)) {
                    tier.tree.fill(node, group, own);
                    pool.register(own, node);
                    continue;
                }
                pool.share(node.block(group), sequence.key());
                table.group(group).replace(index, node.block(group));
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
        for (int group = 0; group < node.groups(); group++) {
            count += node.has(group) && pool.references(node.block(group)) > 0 ? 1 : 0;
        }
        return count;
    }

    private void stopRegistering(Sequence sequence) {
        sequence.table().registers(false);
        endPending(sequence);
    }

    /** Says that a sequence registers no further block of its prompt. */
    void endPending(Sequence sequence) {
        if (sequence.table().isPending()) {
            sequence.table().pending(false);
            pending.remove(sequence);
        }
    }

    /** As {@link KvCache#purge}. */
    void purge(Sequence sequence) {
        BlockTable table = sequence.table();
        Tier tier = of(table.tier());
        // by its tokens, because the sequence may have ended, and others may have registered the same
        stopRegistering(sequence);
        PrefixNode node = tier.tree.root(sequence.request().caching().salt());
        while (node != null && node.depth < table.hits() + 1) {
            node = (node.depth + 1) * tier.blockTokens <= sequence.known() ? tier.tree.child(node, sequence) : null;
        }
        if (node != null) {
            tier.tree.drop(node, dropped -> {
                tier.pool.unregister(dropped);
                if (dropped.hostCopy != null && dropped.hostCopy.attached) {
                    drop(host, dropped.hostCopy);
                }
            });
        }
    }

    /** As {@link KvCache#resetPrefixes}. */
    void reset(Collection<Sequence> live) {
        gpu.tree.clear(gpu.pool::unregister);
        host.tree.clear(host.pool::unregister);
        live.forEach(this::stopRegistering);
        if (events != null) {
            events.cleared();
        }
    }

    /** As {@link KvCache#takeEvents}. */
    List<KvEvent> takeEvents() {
        return events == null ? List.of() : events.take();
    }

    /** How much the cache is used. */
    PrefixCacheUse use() {
        return new PrefixCacheUse(
                queries,
                gpuHits,
                hostHits,
                new PrefixCacheUse.Copied(copiedToGpu, copiedToHost),
                PrefixCacheUse.Tier.of(gpu.pool, layout.groups()),
                PrefixCacheUse.Tier.of(host.pool, layout.groups()),
                demotion.blocks());
    }
}
