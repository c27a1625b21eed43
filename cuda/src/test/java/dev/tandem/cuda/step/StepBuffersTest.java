package dev.tandem.cuda.step;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.cuda.device.Device;
import dev.tandem.cuda.device.FakeDriver;
import dev.tandem.cuda.ffi.CudaException;
import dev.tandem.cuda.kernels.GpuRig;
import dev.tandem.cuda.kernels.ModelShape;
import dev.tandem.model.config.DataType;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class StepBuffersTest {
    private static final int INVALID_VALUE = 1;

    @ParameterizedTest
    @CsvSource({
        "cuMemAlloc_v2, 0", "cuMemAlloc_v2, 1", "cuMemAlloc_v2, 2",
        "cuMemHostAlloc, 0", "cuMemHostAlloc, 1", "cuMemHostAlloc, 2"
    })
    void aFailedAllocationFreesTheEarlierBuffers(String function, int successes) {
        FakeDriver fake = new FakeDriver();
        try (Device device = new Device(fake.driver(), 0, 0)) {
            ModelShape shape = GpuRig.shape(2, 2, 64, 64, 64, 100, DataType.BFLOAT16);
            StepBuffers.Sizes sizes = new StepBuffers.Sizes(4, 8, 4, 2, GpuRig.tables(16));
            fake.codes.put(function, INVALID_VALUE);
            fake.successes.put(function, successes);
            assertThatThrownBy(() -> StepBuffers.of(device, shape, sizes, true)).isInstanceOf(CudaException.class);
            assertThat(device.open()).as("buffers that are not freed").isEmpty();
        }
    }
}
