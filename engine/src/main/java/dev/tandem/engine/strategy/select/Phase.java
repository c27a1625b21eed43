package dev.tandem.engine.strategy.select;

/** The phase of a {@link StrategySelector}. */
public enum Phase {
    /**
     * gpu-only makes the steps, and those in which an arm would offload are measured. Ends when enough steps in a row
     * predict a gain, and the measurement is complete or requests pile up.
     */
    MEASURE,
    /** An arm fills the host; only a clearly slower arm is stopped. Ends when the host no longer fills. */
    WARM_UP,
    /** An arm offloads, and each window of its steps is compared. Ends when it has lost, or another arm is tried. */
    RUN,
    /** Host sequences go on, none is added, and prompts start on the GPU. Ends when the host is empty. */
    DRAIN,
    /** gpu-only makes the steps and is measured. Ends after a number of steps that grows with each clear loss. */
    PAUSE
}
