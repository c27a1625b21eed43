package dev.tandem.server.kvevents;

import dev.tandem.engine.kv.KvEvent;
import dev.tandem.engine.kv.KvEvent.Cleared;
import dev.tandem.engine.kv.KvEvent.Group;
import dev.tandem.engine.kv.KvEvent.Removed;
import dev.tandem.engine.kv.KvEvent.Stored;
import dev.tandem.engine.kv.KvTier;
import java.util.List;
import java.util.Optional;

/**
 * Writes a batch of events as vLLM does: an array of the time, the events and the rank; each event is a map.
 *
 * <p>Fields at their default are left out, except those that vLLM always writes.
 */
final class KvEventEncoder {
    private KvEventEncoder() {}

    /** @param seconds of the batch, since 1970 */
    static byte[] encode(double seconds, List<KvEvent> events) {
        MessagePackWriter out = new MessagePackWriter();
        out.array(3).number(seconds).array(events.size());
        for (KvEvent event : events) {
            switch (event) {
                case Stored stored -> write(out, stored);
                case Removed removed -> {
                    out.map(removed.group().isPresent() ? 4 : 3).text("type").text("BlockRemoved");
                    hashes(out, removed.hashes());
                    medium(out, removed.tier());
                    removed.group().ifPresent(group -> out.text("group_idx").unsigned(group.index()));
                }
                case Cleared cleared -> out.map(1).text("type").text("AllBlocksCleared");
            }
        }
        return out.unsigned(0).toBytes(); // the rank: this server is not one of several replicas with one cache
    }

    private static void write(MessagePackWriter out, Stored stored) {
        boolean salted = stored.parent().isEmpty() && !stored.salt().isEmpty();
        out.map(8 + (salted ? 1 : 0) + groupFields(stored.group())).text("type").text("BlockStored");
        hashes(out, stored.hashes());
        out.text("parent_block_hash");
        stored.parent().ifPresentOrElse(out::unsigned, out::nil);
        out.text("token_ids").array(stored.tokens().length);
        for (int token : stored.tokens()) {
            out.unsigned(token);
        }
        out.text("block_size").unsigned(stored.blockTokens());
        out.text("lora_id").nil();
        medium(out, stored.tier());
        out.text("lora_name").nil();
        if (salted) {
            out.text("extra_keys").array(stored.hashes().length);
            out.array(1).text(stored.salt());
            for (int i = 1; i < stored.hashes().length; i++) {
                out.nil();
            }
        }
        stored.group().ifPresent(group -> write(out, group));
    }

    private static int groupFields(Optional<Group> group) {
        return group.map(some -> some.window() > 0 ? 3 : 2).orElse(0);
    }

    private static void write(MessagePackWriter out, Group group) {
        boolean slides = group.window() > 0;
        out.text("group_idx").unsigned(group.index());
        out.text("kv_cache_spec_kind").text(slides ? "sliding_window" : "full_attention");
        if (slides) {
            out.text("kv_cache_spec_sliding_window").unsigned(group.window());
        }
    }

    private static void hashes(MessagePackWriter out, long[] hashes) {
        out.text("block_hashes").array(hashes.length);
        for (long hash : hashes) {
            out.unsigned(hash);
        }
    }

    private static void medium(MessagePackWriter out, KvTier tier) {
        out.text("medium")
                .text(
                        switch (tier) {
                            case GPU -> "GPU";
                            case HOST -> "CPU";
                        });
    }
}
