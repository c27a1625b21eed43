package dev.tandem.engine.schedule;

/** How the parts of a step overlap, which determines its predicted time. */
public enum Shape {
    /** One batch, nothing on the CPU. */
    GPU_ONLY("gpu-only"),
    /** One batch; the GPU waits for the CPU's attention at each layer (NEO §3.1, strawman 1). */
    OFFLOAD("simple-offload"),
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
