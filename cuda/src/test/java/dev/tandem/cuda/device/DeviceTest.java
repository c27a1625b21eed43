package dev.tandem.cuda.device;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import dev.tandem.cuda.ffi.CudaException;
import org.junit.jupiter.api.Test;

/** Attributes of a GPU, read from a fake driver. */
class DeviceTest {
    private final FakeDriver fake = new FakeDriver();

    @Test
    void attributesAreReadThroughTheDeviceHandle() {
        try (Device device = new Device(fake.driver(), 0, 0)) {
            assertThat(device.name()).isEqualTo("fake");
            assertThat(device.capability()).isEqualTo(90);
            assertThat(device.multiprocessors()).isEqualTo(132);
            assertThat(device.bandwidth()).isCloseTo(4_022_784, within(1.0));
            assertThat(device.slice()).isFalse();
        }
    }

    @Test
    void theBandwidthOfAMigSliceIsUnknown() {
        fake.name = "NVIDIA H100 80GB HBM3 MIG 3g.40gb";
        fake.attributes.put(16, 60);
        try (Device device = new Device(fake.driver(), 0, 0)) {
            assertThat(device.slice()).isTrue();
            assertThat(device.multiprocessors()).isEqualTo(60);
            assertThat(device.bandwidth()).as("unknown").isZero();
        }
    }

    @Test
    void anErrorNamesADriverThatIsTooOld() {
        fake.version = 12_020;
        assertThatThrownBy(() -> new Device(fake.driver(), 0, 0))
                .isInstanceOf(CudaException.class)
                .hasMessageContaining("CUDA 12.2")
                .hasMessageContaining("CUDA 12.4 or later");
    }
}
