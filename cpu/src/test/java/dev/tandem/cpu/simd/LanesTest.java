package dev.tandem.cpu.simd;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;

/** The number of vector registers decides between kernels. */
class LanesTest {
    @Test
    void x86HasManyRegistersWithAvx512AndOthersAlways() {
        assertThat(Lanes.hasManyRegisters("amd64", 256)).isFalse();
        assertThat(Lanes.hasManyRegisters("amd64", 512)).isTrue();
        assertThat(Lanes.hasManyRegisters("x86_64", 128)).isFalse();
        assertThat(Lanes.hasManyRegisters("aarch64", 128)).isTrue();
        assertThat(GroupKernel.grouped(19)).isEqualTo(Lanes.MANY_REGISTERS ? 16 : 0);
    }
}
