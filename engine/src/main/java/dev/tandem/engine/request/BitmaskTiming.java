package dev.tandem.engine.request;

/** Whether the bitmasks of a sequence's grammar are ready when steps sample it. */
public enum BitmaskTiming {
    /** The last one was, or there was none: steps compute the sequence before its next bitmask is ready. */
    IN_TIME,
    /** A step was to sample the sequence and did not, or found no bitmask yet: the next waits until it is ready. */
    PENDING,
    /** The last one was waited for, and a step samples by it. The next is looked at once its token is known. */
    LATE
}
