package dev.tandem.cuda.forward;

import java.util.List;

/**
 * How many rows of in-flight tokens a sub-batch computes at which layer. A token that returns with the attention of a
 * layer is computed after that layer's attention: output projection, MLP and the next layer's QKV projection.
 *
 * @param counts slots that are computed after the embedding, then after each layer's attention [layers + 1]; empty for
 *     all slots at every layer
 * @param resumed the earliest layer at which each resumed token may stand, ascending: its row is computed from there on
 */
public record SlotLayers(List<Integer> counts, List<Integer> resumed) {
    /** All slots at every layer, and no resumed tokens. */
    public static final SlotLayers ALL = new SlotLayers(List.of(), List.of());

    /**
     * Copies the lists.
     *
     * @throws IllegalArgumentException for slots that are counted by layer beside resumed tokens, whose rows lie behind
     *     all slots
     */
    public SlotLayers {
        if (!counts.isEmpty() && !resumed.isEmpty()) {
            throw new IllegalArgumentException("slots are counted by layer, and " + resumed.size()
                    + " resumed tokens have their rows behind them: compute all slots at every layer");
        }
        counts = List.copyOf(counts);
        resumed = List.copyOf(resumed);
    }

    /** All slots at every layer, with resumed tokens. */
    public static SlotLayers resuming(List<Integer> resumed) {
        return new SlotLayers(List.of(), resumed);
    }

    /** Slots by layer, beginning with those of tokens that enter layer 0. */
    public static SlotLayers counting(List<Integer> counts) {
        return new SlotLayers(counts, List.of());
    }

    /** Whether layers have different slots. */
    public boolean countsByLayer() {
        return !counts.isEmpty();
    }

    /**
     * Slots that are computed after the attention of a layer; -1 stands for the embedding.
     *
     * @param slots of the sub-batch
     */
    public int after(int layer, int slots) {
        return countsByLayer() ? counts.get(layer + 1) : slots;
    }

    /** The extent of a sub-batch between the attention of a layer and that of the next, given its largest extent. */
    Extent after(Extent largest, int layer) {
        return largest.withInFlight(after(layer, largest.slots()), resumedAfter(layer));
    }

    /** Resumed tokens that are computed after the attention of a layer. */
    private int resumedAfter(int layer) {
        int count = 0;
        while (count < resumed.size() && resumed.get(count) <= layer) {
            count++;
        }
        return count;
    }
}
