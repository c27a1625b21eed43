package dev.tandem.engine.kv;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Deque;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * Copies prefixes of cached GPU blocks to the host before these blocks are granted to others.
 *
 * <p>Copies cost time of the link, and a step that copies cannot be followed asynchronously. So there are none until a
 * request comes back for a prefix that was evicted, or hits the host, and none again when no more requests do.
 *
 * <p>No copy evicts that of a block which is to be granted sooner: else, with a small host, each call would evict what
 * the one before has copied, and an idle engine would never rest.
 *
 * <p>Owned by: engine thread.
 */
final class PrefixDemotion {
    /**
     * Starts after a useful one during which prefixes are demoted. Not tuned: a request per session of a busy server.
     */
    private static final int STARTS = 1024;
    /**
     * Fraction of the GPU pool; with fewer empty blocks, cached ones are granted soon. Simulated conversations have
     * equal figures from 0.025 to 1, and 0.5 % fewer copied prefixes hit with 0 (docs/results/constants.jsonl).
     */
    private static final double NEARLY_FULL = 0.05;
    /**
     * Cached GPU blocks that are to have a copy on the host, so max that one call looks at. A prompt takes that many at
     * once. Simulated conversations with prompts of 1,000 to 4,750 tokens hit 0.86 of what an unlimited cache hits with
     * 64 blocks, 0.99 with 256 and 0.99 with 1,024 (docs/guide/prefix-cache.md).
     */
    private static final int MAX_SCANNED = 256;
    /** Key that holds host blocks during a call; sequences have keys of 0 or more. */
    private static final long KEY = -2;

    private final BlockPool gpu;
    private final BlockPool host;
    /** GPU blocks per host block. */
    private final int ratio;
    /** Groups of layers, so pages per block. */
    private final int groups;
    /** Hashes of evicted GPU blocks; each overwrites another one with the same low bits. */
    private final long[] evicted;

    private int startsLeft;
    /** Changes of both caches when a call last found nothing to copy. */
    private long changesWithoutWork = -1;

    private long blocks;

    PrefixDemotion(BlockPool gpu, BlockPool host, int ratio, int groups) {
        this.gpu = gpu;
        this.host = host;
        this.ratio = ratio;
        this.groups = groups;
        this.evicted = new long[4 * Integer.highestOneBit(Math.max(1, gpu.size()))];
    }

    /** Host blocks that prefixes were copied to so far. */
    long blocks() {
        return blocks;
    }

    void noteEviction(long hash) {
        evicted[place(hash)] = hash;
    }

    /**
     * Whether a GPU block with one of these chain hashes was evicted, as far as is remembered. All are looked up,
     * because the place of each may have been overwritten since.
     *
     * @param from the first hash that counts
     */
    boolean wasAnyEvicted(long[] hashes, int from) {
        for (int i = from; i < hashes.length; i++) {
            if (evicted[place(hashes[i])] == hashes[i]) {
                return true;
            }
        }
        return false;
    }

    private int place(long hash) {
        return (int) hash & evicted.length - 1;
    }

    /**
     * Counts a sequence that has started.
     *
     * @param wouldUseHost whether its prefix came from the host, or was evicted from the GPU
     */
    void noteStart(boolean wouldUseHost) {
        startsLeft = wouldUseHost ? STARTS : Math.max(0, startsLeft - 1);
    }

    /** As {@link KvCache#demote}. */
    List<Swap> demote(PrefixTree tree, int maxBlocks) {
        if (startsLeft == 0 || gpu.empty() > NEARLY_FULL * gpu.size()) {
            return List.of();
        }
        long changes = gpu.cacheChanges() + host.cacheChanges();
        if (changes == changesWithoutWork) {
            return List.of(); // as in most steps: sequences only decode
        }
        List<Swap> copies = new ArrayList<>();
        // until the end, so that no copy of this call overwrites another
        List<PrefixNode> held = new ArrayList<>();
        Set<PrefixNode> kept = Collections.newSetFromMap(new IdentityHashMap<>());
        int left = maxBlocks;
        int block = gpu.oldestCached();
        for (int scanned = 0; left > 0 && block >= 0 && scanned < MAX_SCANNED * groups; scanned++) {
            PrefixNode end = endOfHostBlock(gpu.node(block));
            PrefixNode onHost = end == null ? null : end.hostCopy;
            if (onHost != null && onHost.attached) {
                keep(onHost, kept);
            } else if (end != null) {
                left -= copyPath(tree, end, left, copies, held, kept);
            }
            block = gpu.newerCached(block);
        }
        for (PrefixNode node : held.reversed()) { // the last of a prefix first, so that it is evicted first
            for (int group = 0; group < groups; group++) {
                if (node.has(group)) {
                    host.give(node.block(group), KEY);
                }
            }
        }
        if (copies.isEmpty()) {
            changesWithoutWork = changes;
        }
        blocks += maxBlocks - left;
        return copies;
    }

    /** Keeps the blocks of a prefix on the host until the end of the call. */
    private static void keep(PrefixNode last, Set<PrefixNode> kept) {
        for (PrefixNode node = last; node != null && kept.add(node); node = node.previous()) {}
    }

    /** Empties host blocks for a copy by evicting the oldest prefixes that are not kept; false if there are too few. */
    private boolean makeRoom(Set<PrefixNode> kept) {
        while (host.empty() < groups) {
            int block = host.oldestCached();
            while (block >= 0 && kept.contains(host.node(block))) {
                block = host.newerCached(block);
            }
            if (block < 0) {
                return false;
            }
            host.evict(block);
        }
        return true;
    }

    /** The last node of the prefix that ends where a host block does; null when the prefix is shorter. */
    private @Nullable PrefixNode endOfHostBlock(@Nullable PrefixNode last) {
        PrefixNode node = last;
        while (node != null && node.depth % ratio != 0) {
            node = node.previous();
        }
        return node;
    }

    /** Copies what the host lacks of a prefix, from its start on, because a prefix is matched from there. */
    private int copyPath(
            PrefixTree tree, PrefixNode last, int max, List<Swap> copies, List<PrefixNode> held, Set<PrefixNode> kept) {
        Deque<PrefixNode> ends = new ArrayDeque<>();
        for (PrefixNode end = last; end != null; end = endOfHostBlock(end.previous())) {
            ends.push(end);
        }
        String salt = last.salt();
        PrefixNode parent = tree.rootToExtend(salt);
        int copied = 0;
        for (PrefixNode end : ends) {
            int[] tokens = tokens(end);
            PrefixNode node = tree.child(parent, end.hash, tokens);
            if (node != null && !node.hasAny()) {
                break; // granting a page may drop it, for there is none that this call could hold
            }
            if (node != null) {
                for (int group = 0; group < groups; group++) {
                    if (node.has(group)) {
                        host.share(node.block(group), KEY);
                    }
                }
            } else if (copied < max && isWhole(end) && makeRoom(kept)) {
                int[] pages = new int[groups];
                Arrays.setAll(pages, group -> host.take(KEY));
                // an eviction may have dropped the root together with its last child
                parent = parent.depth == 0 ? tree.rootToExtend(salt) : parent;
                node = tree.add(parent, end.hash, tokens, pages);
                for (int group = 0; group < groups; group++) {
                    host.register(pages[group], node);
                    copies.add(copy(end, group, pages[group], tokens.length));
                }
                copied++;
            } else {
                break;
            }
            held.add(node);
            keep(node, kept);
            end.hostCopy = node;
            parent = node;
        }
        tree.dropIfEmpty(parent);
        return copied;
    }

    /** Whether the GPU has all pages of the host block that ends with a node. */
    private boolean isWhole(PrefixNode end) {
        PrefixNode node = end;
        for (int i = 0; i < ratio && node != null; i++) {
            if (node.lacksAny()) {
                return false;
            }
            node = node.previous();
        }
        return true;
    }

    private int[] tokens(PrefixNode end) {
        int[] tokens = new int[ratio * end.tokens.length];
        PrefixNode node = end;
        for (int i = ratio - 1; i >= 0 && node != null; i--) {
            System.arraycopy(node.tokens, 0, tokens, i * node.tokens.length, node.tokens.length);
            node = node.previous();
        }
        return tokens;
    }

    private Swap copy(PrefixNode end, int group, int page, int tokens) {
        int[] from = new int[ratio];
        PrefixNode node = end;
        for (int i = ratio - 1; i >= 0 && node != null; i--) {
            from[i] = node.block(group);
            node = node.previous();
        }
        return new Swap(Swap.NO_SEQUENCE, KvTier.GPU, from, KvTier.HOST, new int[] {page}, tokens);
    }
}
