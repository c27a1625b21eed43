package dev.tandem.engine.cost;

/** A part of a step that the cost model predicts and corrects separately. */
public enum Component {
    /** GEMMs before and after attention. */
    LINEAR,
    /** Attention of prefill tokens on the GPU. */
    PREFILL_ATTENTION,
    /** Decode attention on the GPU. */
    GPU_ATTENTION,
    /** Decode attention on the CPU for which a stage of the GPU waits. */
    CPU_ATTENTION,
    /** Decode attention of in-flight tokens on the CPU. */
    IN_FLIGHT_ATTENTION,
    /** Copies of KV between the KV tiers. */
    TRANSFER,
    /** Embedding of the tokens, before the first layer. */
    PRE_LAYER,
    /** Logits and sampling, after the last layer. */
    POST_LAYER
}
