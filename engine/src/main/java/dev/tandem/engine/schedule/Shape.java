package dev.tandem.engine.schedule;

/** How a step's parts overlap, which is what its time depends on. */
public enum Shape {
    /** One batch, nothing on the CPU. */
    GPU_ONLY("gpu-only"),
    /** One batch; the GPU waits for the CPU's attention at each layer (NEO §3.1, strawman 1). */
    OFFLOAD("simple-offload"),
    /** Two sub-batches that alternate (NEO §3.1). */
    PIPELINE("asymmetric"),
    /** One batch; host tokens advance when their results are there (APEX §3.3). */
    ASYNC("async-overlap");

    private final String label;

    Shape(String label) {
        this.label = label;
    }

    /** As flags, logs and metrics spell it. */
    public String label() {
        return label;
    }
}
