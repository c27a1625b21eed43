package dev.tandem.cpu.simd;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledOnOs;
import org.junit.jupiter.api.condition.OS;

class PrefetchTest {
    @Test
    @EnabledOnOs(value = OS.LINUX, architectures = "amd64")
    void itIsThere() {
        assertThat(Prefetch.missing()).isEmpty();
    }

    @Test
    void whatIsNotMappedIsPassedOver() {
        Prefetch.lines(0, 4096, 0);
        Prefetch.lines(Long.MAX_VALUE - 4096, Long.MAX_VALUE, 0);
        Prefetch.lines(0, 4096, 1L << 40);
    }

    @Test
    void aStretchIsDividedAmongCallsInWholeLinesAndEnds() {
        Prefetch.Ahead ahead = new Prefetch.Ahead();
        ahead.over(1 << 20, 1000);
        ahead.spread(3);
        assertThat(ahead.left()).isEqualTo(1000);
        ahead.more();
        assertThat(ahead.left()).isEqualTo(1000 - 384);
        ahead.more();
        ahead.more();
        assertThat(ahead.left()).isZero();
        ahead.more();
        assertThat(ahead.left()).isZero();
        ahead.over(0, 0);
        ahead.spread(4);
        ahead.more();
        assertThat(ahead.left()).isZero();
    }

    /** Side by side or from one end to the other. */
    @Test
    void fourQuartersAreLeftAndAskedForAlike() {
        Prefetch.Ahead ahead = new Prefetch.Ahead();
        ahead.over(1 << 20, 4096);
        ahead.spread(4);
        for (int left = 4096; left > 0; left -= 1024) {
            assertThat(ahead.left()).isEqualTo(left);
            ahead.more();
        }
        assertThat(ahead.left()).isZero();
    }
}
