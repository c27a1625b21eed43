package dev.tandem.engine.observe;

/**
 * A snapshot of the queues and pools, taken after each step.
 *
 * @param waiting clients' requests that have not been in a step yet
 * @param dropped requests that had to give up their KV, and wait to be computed again
 * @param swapped requests that hold KV and were not in the last step
 * @param inFlight host tokens between layers
 * @param hostLost why the host computes attention no longer; empty while it can
 */
public record EngineStats(
        int waiting,
        int dropped,
        int running,
        int swapped,
        int gpuBlocks,
        int gpuBlocksUsed,
        int hostBlocks,
        int hostBlocksUsed,
        long preemptions,
        long steps,
        int inFlight,
        String hostLost) {}
