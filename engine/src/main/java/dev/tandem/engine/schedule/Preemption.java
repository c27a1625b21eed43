package dev.tandem.engine.schedule;

/** What happens to the KV of a sequence that loses its GPU blocks. */
public enum Preemption {
    /** It moves to host blocks if they have room, else it is dropped and computed again. */
    SWAP,
    /** It is dropped and computed again from the tokens. */
    RECOMPUTE
}
