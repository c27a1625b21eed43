package dev.tandem.engine.observe;

/**
 * A snapshot of the queues and pools, taken after each step.
 *
 * @param inFlight host rows between layers
 * @param hostLost why the host computes attention no longer; empty while it can
 */
public record EngineStats(
        int waiting, int running, int swapped, int gpuBlocks, int gpuBlocksUsed, int hostBlocks, int hostBlocksUsed, long preemptions, long steps,
        int inFlight,
        String hostLost) {}
