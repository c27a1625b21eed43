package dev.tandem.cuda.tune;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assumptions.assumeThat;

import dev.tandem.cuda.device.CudaLibraries;
import dev.tandem.cuda.device.Device;
import dev.tandem.cuda.ffi.CudaException;
import dev.tandem.cuda.kernels.GpuRig;
import dev.tandem.cuda.kernels.ModelShape;
import dev.tandem.model.config.DataType;
import org.assertj.core.data.Percentage;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

@Tag("gpu")
class MemoryLoadTest {
    private static final int MULTIPROCESSORS = 8;
    private static final ModelShape SHAPE = GpuRig.shape(4, 2, 64, 256, 256, 301, DataType.BFLOAT16);

    private static Device device(int multiprocessors) {
        return new Device(CudaLibraries.driver().orElseThrow(), 0, multiprocessors);
    }

    /**
     * With the longest pause 8 multiprocessors of three H200s read 465 to 473 GB/s, and of an H100 530 or more. An
     * H200's 8 read 300 at least, whatever the others do; the other imitated cards are for an H100.
     *
     * @param gpu part of its name; empty for any
     */
    @ParameterizedTest
    @CsvSource({"8, 300e3, ''", "8, 540e3, H100", "8, 270e3, H100", "24, 590e3, H100"})
    void leavesTheWantedBandwidth(int multiprocessors, double wanted, String gpu) {
        try (Device device = device(multiprocessors)) {
            assumeThat(device.name()).contains(gpu);
            try (MemoryLoad load = new MemoryLoad(device, GpuRig.compiler(), SHAPE, wanted)) {
                System.out.printf("wanted %.0f GB/s, left %.0f%n", wanted / 1e3, load.bandwidth() / 1e3);
                assertThat(load.bandwidth()).isCloseTo(wanted, Percentage.withPercentage(10));
            }
            assertThat(device.open()).isEmpty();
        }
    }

    @Test
    void anErrorNamesTheBandwidthThatCannotBeReached() {
        try (Device device = device(MULTIPROCESSORS)) {
            assertThatThrownBy(() -> new MemoryLoad(device, GpuRig.compiler(), SHAPE, 20e3))
                    .isInstanceOf(CudaException.class)
                    .hasMessageContaining("--gpu-bandwidth-limit 20 ")
                    .hasMessageContaining("--gpu-sm-limit");
            assertThat(device.open()).isEmpty();
        }
    }

    @Test
    void needsFreeMultiprocessors() {
        try (Device device = device(0)) {
            assertThatThrownBy(() -> new MemoryLoad(device, GpuRig.compiler(), SHAPE, 270e3))
                    .isInstanceOf(CudaException.class)
                    .hasMessageContaining("--gpu-sm-limit");
        }
    }
}
