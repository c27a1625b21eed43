package dev.tandem.cpu.simd;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledOnOs;
import org.junit.jupiter.api.condition.OS;

/** Software prefetch exists on x86-64 Linux, tolerates any address, and covers a range in pieces. */
class PrefetchTest {
    @Test
    @EnabledOnOs(value = OS.LINUX, architectures = "amd64")
    void linuxOnX86CanPrefetch() {
        assertThat(Prefetch.missing()).isEmpty();
    }

    @Test
    void addressesThatAreNotMappedAreIgnored() {
        Prefetch.lines(0, 4096, 0);
        Prefetch.lines(Long.MAX_VALUE - 4096, Long.MAX_VALUE, 0);
        Prefetch.lines(0, 4096, 1L << 40);
    }

    @Test
    void aRangeIsDividedIntoPiecesOfWholeLines() {
        Prefetch.Ahead ahead = new Prefetch.Ahead();
        ahead.setRange(1 << 20, 1000);
        ahead.divide(3);
        assertThat(ahead.left()).isEqualTo(1000);
        ahead.prefetchPiece();
        assertThat(ahead.left()).isEqualTo(1000 - 384);
        ahead.prefetchPiece();
        ahead.prefetchPiece();
        assertThat(ahead.left()).isZero();
        ahead.prefetchPiece();
        assertThat(ahead.left()).isZero();
        ahead.setRange(0, 0);
        ahead.divide(4);
        ahead.prefetchPiece();
        assertThat(ahead.left()).isZero();
    }

    /** Whether the quarters are prefetched side by side or one after the other. */
    @Test
    void piecesOfFourQuartersHaveEqualSizes() {
        Prefetch.Ahead ahead = new Prefetch.Ahead();
        ahead.setRange(1 << 20, 4096);
        ahead.divide(4);
        for (int left = 4096; left > 0; left -= 1024) {
            assertThat(ahead.left()).isEqualTo(left);
            ahead.prefetchPiece();
        }
        assertThat(ahead.left()).isZero();
    }
}
