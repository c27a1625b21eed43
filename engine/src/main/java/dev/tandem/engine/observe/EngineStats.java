package dev.tandem.engine.observe;

/** A snapshot of the queues and pools, taken after each step. */
public record EngineStats(
        int waiting, int running, int swapped, int gpuBlocks, int gpuBlocksUsed, int hostBlocks, int hostBlocksUsed, long preemptions, long steps) {}
