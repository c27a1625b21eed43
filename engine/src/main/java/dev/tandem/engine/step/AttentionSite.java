package dev.tandem.engine.step;

import dev.tandem.engine.kv.KvTier;

/** Who reads a row's KV during attention, and from where. */
public enum AttentionSite {
    GPU_FROM_GPU(KvTier.GPU),
    CPU_FROM_HOST(KvTier.HOST),
    /** Over the link: the GPU attends over host blocks. */
    GPU_FROM_HOST(KvTier.HOST),
    /**
     * A prompt bound for the host: the GPU attends over one layer of staging of its own while the layer's KV leaves for
     * host blocks (NEO §3.1, layer-wise swapping). KV of the prompt's earlier chunks comes back into staging first.
     */
    GPU_PREFILL_OFFLOAD(KvTier.HOST);

    private final KvTier tier;

    AttentionSite(KvTier tier) {
        this.tier = tier;
    }

    public KvTier tier() {
        return tier;
    }

    /** The reader next to the data. */
    public static AttentionSite nearest(KvTier tier) {
        return switch (tier) {
            case GPU -> GPU_FROM_GPU;
            case HOST -> CPU_FROM_HOST;
        };
    }
}
