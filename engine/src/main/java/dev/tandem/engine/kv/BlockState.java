package dev.tandem.engine.kv;

/** What a KV block holds, and for whom. A block has one state at a time; {@link BlockPool} has how each ends. */
public enum BlockState {
    /** It holds nothing. */
    FREE,
    /** Sequences refer to it, and no other can hit it. */
    PRIVATE,
    /** Sequences refer to it, and it holds a prefix that others can hit. */
    HELD,
    /** It holds a prefix that others can hit, and no sequence refers to it. */
    CACHED,
    /** A worker or the device may still write it, so it is never granted again. */
    QUARANTINED
}
