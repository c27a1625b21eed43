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

    private final Map<KvTier, Map<Long, Prefix>> held = new EnumMap<>(KvTier.class);

    public KvEventFollower() {
        for (KvTier tier : KvTier.values()) {
            held.put(tier, new HashMap<>());
        }
    }

    /** All prefixes that end at a block of the tier. */
    public Set<Prefix> prefixes(KvTier tier) {
        return new HashSet<>(held.get(tier).values());
    }

    @Override
    public void offer(List<KvEvent> events) {
        events.forEach(this::follow);
        held.forEach(this::checkChains);
    }

    private void follow(KvEvent event) {
        switch (event) {
            case Stored stored -> store(stored);
            case Removed removed -> {
                for (long hash : removed.hashes()) {
                    require(held.get(removed.tier()).remove(hash) != null, "a block leaves that is not there");
                }
            }
            case Cleared cleared -> held.values().forEach(Map::clear);
        }
    }

    private void store(Stored stored) {
        Map<Long, Prefix> tier = held.get(stored.tier());
        List<Integer> tokens = new ArrayList<>();
        if (stored.parent().isPresent()) {
            Prefix parent = tier.get(stored.parent().getAsLong());
            require(parent != null, "a block enters whose parent is not there");
            require(parent.salt().equals(stored.salt()), "a block has another salt than its parent");
            tokens.addAll(parent.tokens());
        }
        int each = stored.blockTokens();
        require(stored.tokens().length == each * stored.hashes().length, "an event has too many or too few tokens");
        for (int i = 0; i < stored.hashes().length; i++) {
            Arrays.stream(stored.tokens(), i * each, (i + 1) * each).forEach(tokens::add);
            Prefix prefix = new Prefix(stored.salt(), List.copyOf(tokens));
            require(tier.put(stored.hashes()[i], prefix) == null, "a block enters that is there already");
        }
    }

    /** Every block follows one that is there, or is the first. */
    private void checkChains(KvTier tier, Map<Long, Prefix> prefixes) {
        Set<Prefix> all = new HashSet<>(prefixes.values());
        require(all.size() == prefixes.size(), "two hashes name one prefix");
        int each = prefixes.values().stream()
                .mapToInt(prefix -> prefix.tokens().size())
                .min()
                .orElse(0);
        for (Prefix prefix : all) {
            int before = prefix.tokens().size() - each;
            require(
                    before == 0
                            || all.contains(
                                    new Prefix(prefix.salt(), prefix.tokens().subList(0, before))),
                    "a block is left on " + tier + " whose prefix is gone");
        }
    }

    private static void require(boolean holds, String otherwise) {
        if (!holds) {
            throw new AssertionError(otherwise);
        }
    }
}
