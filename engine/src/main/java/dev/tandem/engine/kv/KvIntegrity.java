package dev.tandem.engine.kv;

import dev.tandem.engine.request.RequestState;
import dev.tandem.engine.request.Sequence;
import java.util.Arrays;
import java.util.Collection;

/**
 * Checks that every block of a cache is in one state, that pools and tables agree, and that shared blocks hold the
 * tokens of all sequences that refer to them.
 *
 * <p>Owned by: engine thread.
 */
final class KvIntegrity {
    private final KvCache kv;
    private final Collection<Sequence> live;

    /** @param live all sequences that may hold blocks */
    KvIntegrity(KvCache kv, Collection<Sequence> live) {
        this.kv = kv;
        this.live = live;
    }

    /** @throws IllegalStateException that names the block or the sequence */
    void check() {
        for (KvTier tier : KvTier.values()) {
            BlockPool pool = kv.pool(tier);
            int[] references = new int[pool.size()];
            long[] holders = new long[pool.size()];
            for (Sequence sequence : live) {
                BlockTable table = sequence.table();
                for (int group = 0; table.tier() == tier && group < table.groups(); group++) {
                    for (int block : table.group(group).view().blocks()) {
                        references[block]++;
                        holders[block] ^= sequence.key() + 1;
                    }
                }
            }
            pool.checkIntegrity(references, holders);
        }
        PrefixCache prefixes = kv.prefixes();
        for (KvTier tier : KvTier.values()) {
            if (prefixes != null) {
                prefixes.tree(tier).checkIntegrity();
            }
        }
        live.forEach(this::checkTable);
        for (Sequence sequence : kv.pending()) {
            if (!sequence.table().isPending() || !live.contains(sequence)) {
                throw new IllegalStateException(sequence + " is listed as pending, and holds no KV");
            }
        }
    }

    private void checkTable(Sequence sequence) {
        BlockTable table = sequence.table();
        for (KvLayout.Kind kind : kv.layout().kinds()) {
            for (int group = kind.first(); group < kind.end(); group++) {
                checkGroup(sequence, kind, table.group(group));
            }
        }
        if (!table.isEmpty()) {
            checkPrefix(sequence);
        }
    }

    private void checkGroup(Sequence sequence, KvLayout.Kind kind, GroupTable blocks) {
        KvTier tier = sequence.table().tier();
        if (blocks.end() < kv.blocksFor(tier, sequence.computed())) {
            throw new IllegalStateException(sequence + " has " + blocks.count() + " blocks, too few for its KV");
        }
        if (blocks.count() == 0) {
            return;
        }
        int first = kind.firstHeld(sequence.computed(), kv.blockTokens(tier));
        if (blocks.first() != first && sequence.state() != RequestState.IN_FLIGHT) {
            throw new IllegalStateException(sequence + " holds blocks from " + blocks.first() + " on, and its window"
                    + " begins in block " + first);
        }
        if (blocks.end() != sequence.table().group(kind.first()).end()) {
            throw new IllegalStateException(sequence + " holds blocks to " + blocks.end() + " in one group and to "
                    + sequence.table().group(kind.first()).end() + " in another with the same window");
        }
        BlockPool pool = kv.pool(tier);
        for (int i = Math.max(blocks.first(), sequence.computed() / kv.blockTokens(tier)); i < blocks.end(); i++) {
            int block = blocks.block(i);
            if (pool.references(block) != 1 || pool.node(block) != null) {
                throw new IllegalStateException(sequence + " may write block " + block + ", which others may read");
            }
        }
    }

    private void checkPrefix(Sequence sequence) {
        BlockTable table = sequence.table();
        PrefixCache prefixes = kv.prefixes();
        if (prefixes == null || !table.registers()) {
            return;
        }
        PrefixNode node = table.node();
        if (node == null || !node.attached) {
            return;
        }
        String salt = sequence.request().caching().salt();
        int each = kv.blockTokens(table.tier());
        for (PrefixNode at = node; at != null; at = at.previous()) {
            int from = (at.depth - 1) * each;
            boolean wrongRoot =
                    at.depth == 1 && at.parent != prefixes.tree(table.tier()).root(salt);
            boolean wrongBlock = false;
            for (int group = 0; group < at.groups(); group++) {
                GroupTable blocks = table.group(group);
                wrongBlock |= at.depth > blocks.first() && blocks.block(at.depth - 1) != at.block(group);
            }
            if (wrongBlock || wrongRoot || !Arrays.equals(at.tokens, sequence.tokens(from, each))) {
                throw new IllegalStateException(sequence + " has at " + from + " other blocks than "
                        + Arrays.toString(at.blocks()) + ", those of its prefix and salt");
            }
        }
    }
}
