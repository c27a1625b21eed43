package dev.tandem.engine.executor;

/**
 * @param vocabulary number of token ids, all below it
 * @param contextTokens longest sequence the model allows
 * @param blockTokens tokens a GPU KV block
 * @param hostBlockTokens tokens a host KV block
 * @param maxBatchTokens most rows a step may have
 * @param layers that in-flight tokens pass
 * @param kvBytesPerToken of all layers
 * @param slotsPerLayer most in-flight tokens that a layer can pick up, and most admissions a step
 * @param maxInFlight most rows that may be in flight at a time; 0 where there is no host tier that computes
 * @param completesWithinStep whether a step can take in-flight tokens through all layers that they have left
 * @param piggybackedTokens rows of a step up to which products take little longer than for a few, so that prompt tokens
 *     ride in decode steps almost for free; 0 where each row costs the same
 * @param overlaps whether CPU attention runs beside the GPU's work, rather than on the same cores
 */
public record ExecutorLimits(
        int vocabulary,
        int contextTokens,
        int blockTokens,
        int hostBlockTokens,
        int gpuBlocks,
        int hostBlocks,
        int maxBatchTokens,
        int layers,
        long kvBytesPerToken,
        boolean overlaps,
        int slotsPerLayer,
        int maxInFlight,
        boolean completesWithinStep,
        int piggybackedTokens) {}
