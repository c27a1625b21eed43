package dev.tandem.engine.schedule;

/** What happens to a sequence's KV when the GPU pool is full. */
public enum Preemption {
    /** Moved to host blocks where there is room, else recomputed. */
    SWAP,
    /** Dropped and computed again from the tokens. */
    RECOMPUTE
}
