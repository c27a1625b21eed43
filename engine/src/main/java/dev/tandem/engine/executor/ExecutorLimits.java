package dev.tandem.engine.executor;

import dev.tandem.engine.kv.AttentionSpan;
import dev.tandem.engine.kv.KvLayout;
import dev.tandem.engine.kv.KvTier;
import dev.tandem.engine.kv.PrefillStaging;
import java.util.List;

/**
 * What an executor offers: the sizes of its model, of its KV pools and of its steps. Plans must respect them.
 *
 * <p>Owned by: any thread, immutable.
 */
public final class ExecutorLimits {
    private final int vocabulary;
    private final int contextTokens;
    private final int blockTokens;
    private final int hostBlockTokens;
    private final int gpuBlocks;
    private final boolean stagesPrefills;
    private final int hostBlocks;
    private final int maxBatchTokens;
    private final int layers;
    private final long kvBytesPerToken;
    private final boolean overlaps;
    private final int slotsPerLayer;
    private final int maxInFlight;
    private final boolean completesWithinStep;
    private final PiggybackedPrefill piggybacking;
    private final long maxSharedBlocks;
    private final List<Integer> windows;
    private final KvLayout layout;

    private ExecutorLimits(Builder builder) {
        requirePositive("vocabulary", builder.vocabulary);
        requirePositive("contextTokens", builder.contextTokens);
        requirePositive("blockTokens", builder.blockTokens);
        requirePositive("maxBatchTokens", builder.maxBatchTokens);
        vocabulary = builder.vocabulary;
        contextTokens = builder.contextTokens;
        blockTokens = builder.blockTokens;
        hostBlockTokens = builder.hostBlockTokens == 0 ? builder.blockTokens : builder.hostBlockTokens;
        gpuBlocks = builder.gpuBlocks;
        stagesPrefills = builder.stagesPrefills;
        hostBlocks = builder.hostBlocks;
        maxBatchTokens = builder.maxBatchTokens;
        layers = builder.layers;
        kvBytesPerToken = builder.kvBytesPerToken;
        overlaps = builder.overlaps;
        slotsPerLayer = builder.slotsPerLayer;
        maxInFlight = builder.maxInFlight;
        completesWithinStep = builder.completesWithinStep;
        piggybacking = builder.piggybacking;
        maxSharedBlocks = builder.maxSharedBlocks;
        windows = builder.windows;
        layout = KvLayout.of(windows, hostBlockTokens, maxBatchTokens);
    }

    private static void requirePositive(String name, int value) {
        if (value < 1) {
            throw new IllegalArgumentException(name + " is " + value + "; it must be at least 1");
        }
    }

    /** Number of token ids; all ids lie below it. */
    public int vocabulary() {
        return vocabulary;
    }

    /** Max tokens of a sequence that the model allows. */
    public int contextTokens() {
        return contextTokens;
    }

    /** Tokens per GPU KV block. */
    public int blockTokens() {
        return blockTokens;
    }

    /** Tokens per host KV block. */
    public int hostBlockTokens() {
        return hostBlockTokens;
    }

    /** KV blocks of the GPU, each of all layers. */
    public int gpuBlocks() {
        return gpuBlocks;
    }

    /** How many of the GPU's {@link #pages} a step borrows to offload prefills. */
    public PrefillStaging staging() {
        return stagesPrefills
                ? new PrefillStaging(blockTokens, hostBlockTokens, layers / layout.groups())
                : PrefillStaging.NONE;
    }

    /** Bytes of GPU memory for KV. Strategies are compared at equal values. */
    public long gpuKvBytes() {
        return (long) gpuBlocks * blockTokens * kvBytesPerToken;
    }

    /** KV blocks of the host, each of all layers; 0 without a host tier. */
    public int hostBlocks() {
        return hostBlocks;
    }

    /** Pages of a tier: its KV blocks if each is for one group of layers, see {@link KvLayout}. */
    public int pages(KvTier tier) {
        return Math.multiplyExact(tier == KvTier.GPU ? gpuBlocks : hostBlocks, layout.groups());
    }

    /** Max tokens per step. */
    public int maxBatchTokens() {
        return maxBatchTokens;
    }

    /** Layers of the model, which in-flight tokens pass one by one. */
    public int layers() {
        return layers;
    }

    /** Bytes of KV per token, of all layers together. */
    public long kvBytesPerToken() {
        return kvBytesPerToken;
    }

    /** Whether CPU attention runs beside the GPU's work, rather than on the same cores. */
    public boolean overlaps() {
        return overlaps;
    }

    /** Max in-flight tokens that continue at a layer per step, and max admissions per step. */
    public int slotsPerLayer() {
        return slotsPerLayer;
    }

    /** Max in-flight tokens at a time; 0 without a host tier that computes. */
    public int maxInFlight() {
        return maxInFlight;
    }

    /** Whether a step can take in-flight tokens through all remaining layers. */
    public boolean completesWithinStep() {
        return completesWithinStep;
    }

    /** What prompt tokens cost in decode steps. */
    public PiggybackedPrefill piggybacking() {
        return piggybacking;
    }

    /**
     * Max references to GPU blocks beyond the first of each, when sequences share KV: how many entries a step's block
     * tables may have beyond the blocks of the pool.
     */
    public long maxSharedBlocks() {
        return maxSharedBlocks;
    }

    /** Which part of its KV a sequence holds, by group of layers. */
    public KvLayout layout() {
        return layout;
    }

    /** How many tokens attention reads. */
    public AttentionSpan span() {
        return new AttentionSpan(windows);
    }

    /** Max pages that a sequence of {@code length} tokens holds in the tier at a time. */
    public int maxHeld(KvTier tier, int length) {
        return layout.maxHeld(length, tier == KvTier.GPU ? blockTokens : hostBlockTokens);
    }

    /** Max tokens of a sequence, up to {@code allowed}, whose KV fits the GPU's pages. */
    public int fittingContext(int allowed) {
        int fits = 0;
        int max = allowed;
        while (fits < max) {
            int middle = max - (max - fits) / 2;
            if (maxHeld(KvTier.GPU, middle) <= pages(KvTier.GPU)) {
                fits = middle;
            } else {
                max = middle - 1;
            }
        }
        return fits;
    }

    /** A builder of limits without a host tier; vocabulary, context, block size and batch size must be set. */
    public static Builder builder() {
        return new Builder();
    }

    /** Collects the values of {@link ExecutorLimits}. */
    public static final class Builder {
        private int vocabulary;
        private int contextTokens;
        private int blockTokens;
        private int hostBlockTokens;
        private int gpuBlocks;
        private boolean stagesPrefills;
        private int hostBlocks;
        private int maxBatchTokens;
        private int layers = 1;
        private long kvBytesPerToken = 1;
        private boolean overlaps;
        private int slotsPerLayer;
        private int maxInFlight;
        private boolean completesWithinStep;
        private PiggybackedPrefill piggybacking = PiggybackedPrefill.NONE;
        private long maxSharedBlocks = Long.MAX_VALUE;
        private List<Integer> windows = List.of();

        private Builder() {}

        /** Sets {@link ExecutorLimits#vocabulary}. */
        public Builder vocabulary(int value) {
            vocabulary = value;
            return this;
        }

        /** Sets {@link ExecutorLimits#contextTokens}. */
        public Builder contextTokens(int value) {
            contextTokens = value;
            return this;
        }

        /** Sets {@link ExecutorLimits#blockTokens}. */
        public Builder blockTokens(int value) {
            blockTokens = value;
            return this;
        }

        /** Sets {@link ExecutorLimits#hostBlockTokens}; without it, the same as for the GPU. */
        public Builder hostBlockTokens(int value) {
            hostBlockTokens = value;
            return this;
        }

        /** Sets {@link ExecutorLimits#gpuBlocks}. */
        public Builder gpuBlocks(int value) {
            gpuBlocks = value;
            return this;
        }

        /**
         * Sets whether offloaded prefills pass through {@link ExecutorLimits#staging}; false without it, for executors
         * that write them to the host directly.
         */
        public Builder stagesPrefills(boolean value) {
            stagesPrefills = value;
            return this;
        }

        /** Sets {@link ExecutorLimits#hostBlocks}; 0 without it. */
        public Builder hostBlocks(int value) {
            hostBlocks = value;
            return this;
        }

        /** Sets {@link ExecutorLimits#maxBatchTokens}. */
        public Builder maxBatchTokens(int value) {
            maxBatchTokens = value;
            return this;
        }

        /** Sets {@link ExecutorLimits#layers}; 1 without it. */
        public Builder layers(int value) {
            layers = value;
            return this;
        }

        /** Sets {@link ExecutorLimits#kvBytesPerToken}; 1 without it. */
        public Builder kvBytesPerToken(long value) {
            kvBytesPerToken = value;
            return this;
        }

        /** Sets {@link ExecutorLimits#overlaps}; false without it. */
        public Builder overlaps(boolean value) {
            overlaps = value;
            return this;
        }

        /**
         * Sets {@link ExecutorLimits#slotsPerLayer}, {@link ExecutorLimits#maxInFlight} and
         * {@link ExecutorLimits#completesWithinStep}; without it, 0 and false.
         */
        public Builder inFlight(int slotsPerLayer, int max, boolean completesWithinStep) {
            this.slotsPerLayer = slotsPerLayer;
            this.maxInFlight = max;
            this.completesWithinStep = completesWithinStep;
            return this;
        }

        /** Sets {@link ExecutorLimits#piggybacking}; {@link PiggybackedPrefill#NONE} without it. */
        public Builder piggybacking(PiggybackedPrefill value) {
            piggybacking = value;
            return this;
        }

        /** Sets {@link ExecutorLimits#maxSharedBlocks}; unlimited without it. */
        public Builder maxSharedBlocks(long value) {
            maxSharedBlocks = value;
            return this;
        }

        /** Sets the sliding window of each layer, 0 for none; empty, or without it, no layer has one. */
        public Builder windows(List<Integer> value) {
            windows = List.copyOf(value);
            return this;
        }

        /**
         * The limits.
         *
         * @throws IllegalArgumentException when a required value is missing
         */
        public ExecutorLimits build() {
            return new ExecutorLimits(this);
        }
    }
}
