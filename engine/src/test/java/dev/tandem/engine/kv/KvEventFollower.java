package dev.tandem.engine.kv;

import dev.tandem.engine.kv.KvEvent.Cleared;
import dev.tandem.engine.kv.KvEvent.Removed;
import dev.tandem.engine.kv.KvEvent.Stored;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.EnumMap;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** What a router knows of the prefix cache that it follows by events; fails on an event that does not fit. */
public final class KvEventFollower implements KvEventSink {
    /** A prefix whose last block is in a tier. */
    public record Prefix(String salt, List<Integer> tokens) {}

    private static final class Block {
        /** Null before the first block. */
        final Block parent;

        final String salt;
        final int[] tokens;
        int children;

        Block(Block parent, String salt, int[] tokens) {
            this.parent = parent;
            this.salt = salt;
            this.tokens = tokens;
        }

        Prefix prefix() {
            List<Integer> all = new ArrayList<>();
            for (Block block = this; block != null; block = block.parent) {
                all.addAll(0, Arrays.stream(block.tokens).boxed().toList());
            }
            return new Prefix(salt, all);
        }
    }

    private final Map<KvTier, Map<Long, Block>> held = new EnumMap<>(KvTier.class);

    public KvEventFollower() {
        for (KvTier tier : KvTier.values()) {
            held.put(tier, new HashMap<>());
        }
    }

    /** All prefixes that end at a block of the tier. */
    public Set<Prefix> prefixes(KvTier tier) {
        Set<Prefix> prefixes = new HashSet<>();
        held.get(tier).values().forEach(block -> prefixes.add(block.prefix()));
        require(prefixes.size() == held.get(tier).size(), "two hashes name one prefix");
        return prefixes;
    }

    /** [tier] the hashes of all blocks. */
    public Map<KvTier, Set<Long>> hashes() {
        Map<KvTier, Set<Long>> hashes = new EnumMap<>(KvTier.class);
        held.forEach((tier, blocks) -> hashes.put(tier, Set.copyOf(blocks.keySet())));
        return hashes;
    }

    @Override
    public void offer(List<KvEvent> events) {
        for (KvEvent event : events) {
            switch (event) {
                case Stored stored -> store(stored);
                case Removed removed -> remove(removed);
                case Cleared cleared -> held.values().forEach(Map::clear);
            }
        }
    }

    private void store(Stored stored) {
        Map<Long, Block> tier = held.get(stored.tier());
        Block parent = null;
        if (stored.parent().isPresent()) {
            parent = tier.get(stored.parent().getAsLong());
            require(parent != null, "a block enters whose parent is not there");
            require(parent.salt.equals(stored.salt()), "a block has another salt than its parent");
        }
        int each = stored.blockTokens();
        require(stored.tokens().length == each * stored.hashes().length, "an event has too many or too few tokens");
        for (int i = 0; i < stored.hashes().length; i++) {
            int[] tokens = Arrays.copyOfRange(stored.tokens(), i * each, (i + 1) * each);
            Block block = new Block(parent, stored.salt(), tokens);
            require(tier.put(stored.hashes()[i], block) == null, "a block enters that is there already");
            if (parent != null) {
                parent.children++;
            }
            parent = block;
        }
    }

    private void remove(Removed removed) {
        for (long hash : removed.hashes()) {
            Block block = held.get(removed.tier()).remove(hash);
            require(block != null, "a block leaves that is not there");
            require(block.children == 0, "a block leaves before one that follows it");
            if (block.parent != null) {
                block.parent.children--;
            }
        }
    }

    private static void require(boolean holds, String otherwise) {
        if (!holds) {
            throw new AssertionError(otherwise);
        }
    }
}
