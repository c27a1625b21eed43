package dev.tandem.bench.ideal;

/** What a step does with the tokens of sequences whose KV is on the host. */
public enum Placement {
    /** Nothing: the GPU decodes its own sequences, with or without a prompt chunk. */
    GPU_ONLY("GPU alone"),
    /** They are in flight: each advances one layer per step and waits as many steps as there are layers. */
    IN_FLIGHT("in-flight tokens"),
    /** The CPU attends in each layer while the GPU attends for its own; the GPU waits for the rest. */
    SAME_LAYER("CPU attention in the same layer"),
    /** A second pass over the weights is theirs, and the CPU attends during the other pass. */
    TWO_SUB_BATCHES("two sub-batches"),
    /** The GPU streams their KV over the link, a layer ahead. No strategy of Tandem does this. */
    LINK("KV over the link"),
    /** No decode token: a prompt chunk only. */
    PREFILL("prefill only");

    private final String words;

    Placement(String words) {
        this.words = words;
    }

    /** In words, for reports. */
    public String words() {
        return words;
    }
}
