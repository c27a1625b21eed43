package dev.tandem.engine.kv;

import dev.tandem.engine.kv.KvEvent.Cleared;
import dev.tandem.engine.kv.KvEvent.Group;
import dev.tandem.engine.kv.KvEvent.Removed;
import dev.tandem.engine.kv.KvEvent.Stored;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.EnumMap;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;

/**
 * What a router knows of the prefix cache that it follows by events; fails on an event that does not fit.
 *
 * <p>It knows what the events say and nothing of the cache's own rules: a request hits a prefix whose blocks are all
 * there in layers without a window, and whose last blocks are there in layers with one, as many as the window reads.
 */
public final class KvEventFollower implements KvEventSink {
    /** A prefix whose last block is in a tier. */
    public record Prefix(String salt, List<Integer> tokens) {}

    /** Of layers without a window, when no event names another one. */
    private static final Group ALL_LAYERS = new Group(0, 0);

    private record Block(Optional<Block> parent, String salt, List<Integer> tokens) {
        Prefix prefix() {
            List<Integer> all = new ArrayList<>();
            for (Optional<Block> block = Optional.of(this); block.isPresent(); block = block.get().parent) {
                all.addAll(0, block.get().tokens);
            }
            return new Prefix(salt, all);
        }
    }

    /** The blocks that a tier holds in the layers of one group. */
    private static final class Held {
        final int window;
        final Map<Long, Block> blocks = new HashMap<>();
        /** By hash of the parent. */
        final Map<Long, Integer> children = new HashMap<>();

        Held(int window) {
            this.window = window;
        }

        Set<Prefix> prefixes() {
            Set<Prefix> prefixes = new HashSet<>();
            blocks.values().forEach(block -> prefixes.add(block.prefix()));
            require(prefixes.size() == blocks.size(), "two hashes name one prefix");
            return prefixes;
        }
    }

    private final Map<KvTier, Map<Integer, Held>> held = new EnumMap<>(KvTier.class);
    /** Every block that was ever there, by hash: events name a parent by its hash alone. */
    private final Map<Long, Block> named = new HashMap<>();
    /** Hash of a block's parent, by the block's. */
    private final Map<Long, Optional<Long>> parents = new HashMap<>();

    public KvEventFollower() {
        for (KvTier tier : KvTier.values()) {
            held.put(tier, new TreeMap<>());
        }
    }

    /** All prefixes that end at a block which the tier holds in the layers of a group. */
    public Set<Prefix> prefixes(KvTier tier, int group) {
        Held found = held.get(tier).get(group);
        return found == null ? Set.of() : found.prefixes();
    }

    /** [tier] the hashes of all blocks of a group. */
    public Map<KvTier, Set<Long>> hashes(int group) {
        Map<KvTier, Set<Long>> hashes = new EnumMap<>(KvTier.class);
        held.forEach((tier, groups) -> hashes.put(
                tier,
                groups.containsKey(group) ? Set.copyOf(groups.get(group).blocks.keySet()) : Set.of()));
        return hashes;
    }

    /**
     * How many of a request's first tokens it hits in a tier.
     *
     * @param max max tokens that it hits
     * @param each tokens per block of events
     * @param unit tokens that are hit at a time: those of a block of the tier
     */
    public int hit(KvTier tier, String salt, List<Integer> tokens, int max, int each, int unit) {
        List<Held> groups = List.copyOf(held.get(tier).values());
        List<Set<Prefix>> there = groups.stream().map(Held::prefixes).toList();
        for (int end = max / unit * unit; end > 0; end -= unit) {
            boolean all = !groups.isEmpty();
            for (int i = 0; i < groups.size(); i++) {
                int window = groups.get(i).window;
                int blocks = window == 0 ? end / each : Math.min(end / each, Math.ceilDiv(window - 1, each));
                for (int at = end; at > end - blocks * each; at -= each) {
                    all &= there.get(i).contains(new Prefix(salt, tokens.subList(0, at)));
                }
            }
            if (all) {
                return end;
            }
        }
        return 0;
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
        Group group = stored.group().orElse(ALL_LAYERS);
        Held tier = held.get(stored.tier()).computeIfAbsent(group.index(), index -> new Held(group.window()));
        require(tier.window == group.window(), "a group has two windows");
        Optional<Long> parentHash =
                stored.parent().isPresent() ? Optional.of(stored.parent().getAsLong()) : Optional.empty();
        Optional<Block> parent = parentHash.map(named::get);
        require(parentHash.isEmpty() || parent.isPresent(), "a block enters whose parent has never been there");
        require(
                parentHash.isEmpty() || tier.window > 0 || tier.blocks.containsKey(parentHash.get()),
                "a block enters whose parent is not there, in layers without a window");
        require(
                parent.isEmpty() || parent.get().salt.equals(stored.salt()),
                "a block has another salt than its parent");
        int each = stored.blockTokens();
        require(stored.tokens().length == each * stored.hashes().length, "an event has too many or too few tokens");
        for (int i = 0; i < stored.hashes().length; i++) {
            List<Integer> tokens = Arrays.stream(stored.tokens(), i * each, (i + 1) * each)
                    .boxed()
                    .toList();
            Block block = new Block(parent, stored.salt(), tokens);
            long hash = stored.hashes()[i];
            require(tier.blocks.put(hash, block) == null, "a block enters that is there already");
            parentHash.ifPresent(before -> tier.children.merge(before, 1, Integer::sum));
            named.put(hash, block);
            parents.put(hash, parentHash);
            parent = Optional.of(block);
            parentHash = Optional.of(hash);
        }
    }

    private void remove(Removed removed) {
        Held tier =
                held.get(removed.tier()).get(removed.group().orElse(ALL_LAYERS).index());
        require(tier != null, "a block leaves of a group that has none");
        for (long hash : removed.hashes()) {
            require(tier.blocks.remove(hash) != null, "a block leaves that is not there");
            require(!tier.children.containsKey(hash), "a block leaves before one that follows it");
            parents.get(hash)
                    .ifPresent(before ->
                            tier.children.computeIfPresent(before, (key, count) -> count == 1 ? null : count - 1));
        }
    }

    private static void require(boolean holds, String otherwise) {
        if (!holds) {
            throw new AssertionError(otherwise);
        }
    }
}
