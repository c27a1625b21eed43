package dev.tandem.cuda.forward;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/** Which rows of in-flight tokens a sub-batch computes at which layer. It needs no GPU. */
class SlotLayersTest {
    private static final int LAYERS = 6;
    private static final int OWN_ROWS = 5;
    private static final int OWN_SAMPLES = 3;

    private static Extent largest(int slots, SlotLayers layers) {
        int inFlight = slots + layers.resumed().size();
        return Extent.of(OWN_ROWS + inFlight, OWN_SAMPLES + inFlight)
                .withSlots(slots)
                .withResumed(layers.resumed().size());
    }

    private static List<Integer> rows(Extent largest, SlotLayers layers) {
        return IntStream.range(-1, LAYERS)
                .mapToObj(layer -> layers.after(largest, layer).rows())
                .toList();
    }

    @Test
    void slotsAreComputedAtEveryLayer() {
        Extent largest = largest(8, SlotLayers.ALL);
        assertThat(rows(largest, SlotLayers.ALL)).containsOnly(OWN_ROWS + 8);
        assertThat(SlotLayers.ALL.after(largest, LAYERS - 1)).isEqualTo(largest);
    }

    @Test
    void aCohortIsComputedWhereItStands() {
        SlotLayers layers = SlotLayers.counting(List.of(0, 0, 0, 128, 40, 0, 0));
        Extent largest = largest(128, layers);
        assertThat(rows(largest, layers)).containsExactly(5, 5, 5, 133, 45, 5, 5);
        Extent last = layers.after(largest, LAYERS - 1);
        assertThat(last.sampled()).isEqualTo(OWN_SAMPLES);
        assertThat(last.firstSlot()).isEqualTo(Integer.MAX_VALUE);
        assertThat(layers.after(largest, 3).firstSlot()).as("the first slots").isEqualTo(OWN_ROWS);
        assertThat(layers.after(largest, 3).slots()).isEqualTo(40);
        assertThat(layers.after(largest, 3).sampled()).isEqualTo(OWN_SAMPLES + 40);
        assertThat(layers.after(2, 128)).isEqualTo(128);
        assertThat(layers.after(3, 128)).isEqualTo(40);
    }

    @Test
    void tokensThatEnterAreComputedBeforeLayer0() {
        SlotLayers enter = SlotLayers.counting(List.of(16, 0, 0, 0, 0, 0, 0));
        assertThat(rows(largest(16, enter), enter)).containsExactly(21, 5, 5, 5, 5, 5, 5);
        SlotLayers last = SlotLayers.counting(List.of(0, 0, 0, 0, 0, 16, 9));
        assertThat(rows(largest(16, last), last)).containsExactly(5, 5, 5, 5, 5, 21, 14);
    }

    @Test
    void slotsByLayerLeaveResumedTokensNoPlace() {
        assertThatThrownBy(() -> new SlotLayers(List.of(0, 8), List.of(3, 3)))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("2 resumed tokens");
    }

    /** A token that has passed i layers is not computed at these again. */
    @Test
    void resumedTokensJoinWhereTheyStand() {
        SlotLayers layers = SlotLayers.resuming(List.of(0, 3, 3, 5));
        Extent largest = largest(8, layers);
        assertThat(rows(largest, layers)).containsExactly(13, 14, 14, 14, 16, 16, 17);
        assertThat(layers.after(largest, 3).firstSlot()).isEqualTo(OWN_ROWS);
        assertThat(layers.after(largest, 3).resumed()).isEqualTo(3);
        assertThat(layers.after(largest, LAYERS - 1)).isEqualTo(largest);
    }

    @Test
    void aSubBatchOfResumedTokensAloneIsEmptyAtFirst() {
        SlotLayers layers = SlotLayers.resuming(List.of(2, 4));
        Extent largest = Extent.of(2, 2).withResumed(2);
        assertThat(rows(largest, layers)).containsExactly(0, 0, 0, 1, 1, 2, 2);
    }
}
