package dev.tandem.engine.kv;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

class KvLayoutTest {
    private static KvLayout of(Integer... windows) {
        return KvLayout.of(List.of(windows), 64, 100);
    }

    @Test
    void layersOfOneKindAreOneGroup() {
        for (KvLayout layout : List.of(of(), of(0, 0, 0), of(20, 20, 20))) {
            assertThat(layout.groups()).isEqualTo(1);
            assertThat(layout.groupOf(2)).isZero();
            assertThat(layout.indexOf(2)).isEqualTo(2);
        }
        assertThat(of(0, 0).slides()).isFalse();
        assertThat(of(20, 20).widest()).isEqualTo(new KvWindow(20, 64, 100));
    }

    /** Two layers without a window and four with one: groups of two, those that hold most first. */
    @Test
    void groupsHaveAsManyLayersAsDivideThoseOfEachWindow() {
        KvLayout layout = of(20, 0, 20, 20, 0, 20);
        assertThat(layout.kinds())
                .containsExactly(
                        new KvLayout.Kind(KvWindow.NONE, 0, 1), new KvLayout.Kind(new KvWindow(20, 64, 100), 1, 2));
        assertThat(IntStream.range(0, 6).map(layout::groupOf)).containsExactly(1, 0, 1, 2, 0, 2);
        assertThat(IntStream.range(0, 6).map(layout::indexOf)).containsExactly(0, 0, 1, 0, 1, 1);
    }
}
