package dev.tandem.cpu.topology;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;

class NativeMemoryTest {
    @Test
    void hugePagesAreAskedForOnLinuxAlone() {
        assertThat(NativeMemory.hasHugePageAdvice("Linux")).isTrue();
        assertThat(NativeMemory.hasHugePageAdvice("Mac OS X")).isFalse();
        assertThat(NativeMemory.hasHugePageAdvice("FreeBSD")).isFalse();
    }
}
