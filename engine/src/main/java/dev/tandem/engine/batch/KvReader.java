package dev.tandem.engine.batch;

import dev.tandem.engine.kv.Place;

/** Who reads a row's KV during attention, and from where. */
public enum KvReader {
    GPU_FROM_GPU(Place.GPU),
    CPU_FROM_HOST(Place.HOST),
    /** Over the link: the GPU attends over host blocks. */
    GPU_FROM_HOST(Place.HOST),
    /**
     * A prompt bound for the host: the GPU attends over one layer of staging of its own while the layer's KV leaves for
     * host blocks (NEO §3.1, layer-wise swapping). KV of the prompt's earlier chunks comes back into staging first.
     */
    GPU_WHILE_LANDING(Place.HOST);

    private final Place place;

    KvReader(Place place) {
        this.place = place;
    }

    public Place place() {
        return place;
    }

    /** The reader next to the data. */
    public static KvReader nearest(Place place) {
        return switch (place) {
            case GPU -> GPU_FROM_GPU;
            case HOST -> CPU_FROM_HOST;
        };
    }
}
