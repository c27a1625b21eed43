package dev.tandem.engine.schedule;

/** How the parts of a step overlap, which determines its predicted time. */
public enum Shape {
    /** One batch, nothing on the CPU. */
    GPU_ONLY("gpu-only"),
    /**
     * One batch; the CPU computes all decode attention and the GPU waits for it at each layer (NEO §3.1, strawman 1).
     */
    OFFLOAD("simple-offload"),
    /** One batch; the CPU attends for host tokens while the GPU attends for its own in the same layer. */
    SAME_LAYER("same-layer"),
    /** Two sub-batches that alternate (NEO §3.1). */
    PIPELINE("asymmetric"),
    /** One batch; in-flight tokens advance as their attention results return (APEX §3.3). */
    ASYNC("async-overlap");

    private final String label;

    Shape(String label) {
        this.label = label;
    }

    /** The shape as flags, logs and metrics spell it. */
    public String label() {
        return label;
    }
}
