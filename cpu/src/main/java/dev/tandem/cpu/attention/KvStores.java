package dev.tandem.cpu.attention;

import dev.tandem.engine.kv.KvTier;

/** The KV blocks of both tiers of the CPU executor. */
public record KvStores(KvStore gpu, KvStore host) {
    /** The blocks of a tier. */
    public KvStore of(KvTier tier) {
        return switch (tier) {
            case GPU -> gpu;
            case HOST -> host;
        };
    }
}
