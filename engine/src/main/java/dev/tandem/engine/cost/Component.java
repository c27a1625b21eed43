package dev.tandem.engine.cost;

/** What the cost model tells apart, corrects and reports by itself. */
public enum Component {
    LINEAR,
    PREFILL_ATTENTION,
    GPU_ATTENTION,
    CPU_ATTENTION,
    TRANSFER,
    PRE_LAYER,
    POST_LAYER
}
