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
        Prefetch.lines(0, 4096);
        Prefetch.lines(Long.MAX_VALUE - 4096, Long.MAX_VALUE);
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
}
