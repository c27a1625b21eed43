package dev.tandem.engine.strategy.select;

/** What a {@link StrategySelector} does at present. */
public enum Phase {
    /**
     * gpu-only makes the steps, and is measured where offloading is wanted. Ends when enough steps in a row promise a
     * gain, and the measurement is complete or requests pile up meanwhile.
     */
    MEASURE,
    /** An arm fills the host and is judged only for being hopeless. Ends when the host no longer fills. */
    WARM_UP,
    /** An arm offloads, and each window of its steps is judged. Ends when it has lost, or another arm is tried. */
    RUN,
    /** No request enters the host, those on it decode on, prompts start on the GPU. Ends with an empty host. */
    DRAIN,
    /** gpu-only makes the steps and is measured. Ends after a number of steps, longer after each clear loss. */
    PAUSE
}
