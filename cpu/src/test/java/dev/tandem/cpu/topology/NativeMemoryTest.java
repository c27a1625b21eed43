package dev.tandem.cpu.topology;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;

/** Huge pages are requested only where the number of the advice means that. */
class NativeMemoryTest {
    @Test
    void hugePagesAreRequestedOnLinuxOnly() {
        assertThat(NativeMemory.hasHugePageAdvice("Linux")).isTrue();
        assertThat(NativeMemory.hasHugePageAdvice("Mac OS X")).isFalse();
        assertThat(NativeMemory.hasHugePageAdvice("FreeBSD")).isFalse();
    }
}
