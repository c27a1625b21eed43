package dev.tandem.engine.step;

import dev.tandem.engine.kv.KvTier;

/** Which processor computes a token's attention, and in which tier it reads the KV. */
public enum AttentionSite {
    /** The GPU reads GPU blocks. */
    GPU_FROM_GPU(KvTier.GPU),
    /** The CPU reads host blocks. */
    CPU_FROM_HOST(KvTier.HOST),
    /** The GPU reads host blocks over the link. */
    GPU_FROM_HOST(KvTier.HOST),
    /**
     * The GPU computes a prompt whose KV goes to host blocks layer by layer (NEO §3.1, layer-wise swapping).
     *
     * <p>It reads one layer's KV from staging in GPU blocks, from which the KV is copied to the host. The KV of the
     * prompt's earlier chunks is first copied back into that staging.
     */
    GPU_PREFILL_OFFLOAD(KvTier.HOST);

    private final KvTier tier;

    AttentionSite(KvTier tier) {
        this.tier = tier;
    }

    /** The tier of the KV. */
    public KvTier tier() {
        return tier;
    }

    /** The site whose processor is next to the tier. */
    public static AttentionSite nearest(KvTier tier) {
        return switch (tier) {
            case GPU -> GPU_FROM_GPU;
            case HOST -> CPU_FROM_HOST;
        };
    }
}
