package dev.tandem.cuda.forward;

import java.util.List;

/**
 * At which layers a sub-batch computes rows of in-flight tokens. A token that returns with the attention of a layer is
 * computed after that layer's attention: output projection, MLP and the next layer's QKV projection.
 *
 * @param first layer after whose attention slots are computed for the first time; -1 where tokens enter layer 0
 * @param last layer after whose attention slots are computed for the last time
 * @param resumed the earliest layer at which each resumed token may stand, ascending: its row is computed from there on
 */
public record SlotLayers(int first, int last, List<Integer> resumed) {
    /** Slots at every layer, and no resumed tokens. */
    public static final SlotLayers ALL = new SlotLayers(-1, Integer.MAX_VALUE, List.of());

    /** Copies the list. */
    public SlotLayers {
        resumed = List.copyOf(resumed);
    }

    /** Slots at every layer, with resumed tokens. */
    public static SlotLayers resuming(List<Integer> resumed) {
        return new SlotLayers(-1, Integer.MAX_VALUE, resumed);
    }

    /**
     * Slots at some layers.
     *
     * @param first -1 where tokens enter layer 0
     */
    public static SlotLayers between(int first, int last) {
        return new SlotLayers(first, last, List.of());
    }

    /** Whether slots are computed after the attention of a layer; -1 stands for the embedding. */
    public boolean after(int layer) {
        return first <= layer && layer <= last;
    }

    /** The extent of a sub-batch between the attention of a layer and that of the next, given its largest extent. */
    Extent after(Extent largest, int layer) {
        return largest.withInFlight(after(layer) ? largest.slots() : 0, resumedAfter(layer));
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
