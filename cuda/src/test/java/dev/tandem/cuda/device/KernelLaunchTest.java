package dev.tandem.cuda.device;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.cuda.ffi.CudaException;
import org.junit.jupiter.api.Test;

/** Loading of kernels, and the errors of launches with wrong arguments. It needs no GPU. */
class KernelLaunchTest {
    private final FakeDriver fake = new FakeDriver();
    private final Device device = new Device(fake.driver(), 0, 0);
    private final Stream stream = device.stream("test");
    private final CudaModule module = device.module(new byte[16], "test kernels");

    private Kernel kernel(int... parameterBytes) {
        fake.kernels.put("scale", new FakeDriver.Declared(0, parameterBytes));
        return module.kernel("scale", 256, 0);
    }

    @Test
    void aKernelIsLoadedBeforeItsFirstLaunch() {
        Kernel scale = kernel(8, 4);
        assertThat(fake.log).containsExactly("load scale");
        scale.launch(stream, 1, 1, 0L, 1f);
        assertThat(fake.log).containsExactly("load scale", "launch scale");
    }

    @Test
    void anErrorNamesTheKernelAndCountsOfATooLongArgumentList() {
        Kernel scale = kernel(8, 4);
        assertThatThrownBy(() -> scale.launch(stream, 1, 1, 0L, 1f, 0L))
                .isInstanceOf(CudaException.class)
                .hasMessage("kernel scale has 2 parameters; the launch passes 3 arguments");
        assertThat(fake.log).containsExactly("load scale");
    }

    @Test
    void anErrorNamesTheKernelAndCountsOfATooShortArgumentList() {
        Kernel scale = kernel(8, 4);
        assertThatThrownBy(() -> scale.launch(stream, 1, 1, 0L))
                .hasMessage("kernel scale has 2 parameters; the launch passes 1 arguments");
    }

    @Test
    void anErrorNamesTheKernelIndexAndSizesOfAWrongArgument() {
        Kernel scale = kernel(8, 4);
        assertThatThrownBy(() -> scale.launch(stream, 1, 1, 0L, 1L))
                .isInstanceOf(CudaException.class)
                .hasMessage("kernel scale: parameter 1 has 4 bytes; the launch passes an argument of 8");
        assertThat(fake.log).containsExactly("load scale");
    }

    @Test
    void tooMuchSharedMemoryIsRejectedWhenTheKernelIsLoaded() {
        fake.attributes.put(97, 64 << 10);
        Device small = new Device(fake.driver(), 0, 0);
        fake.kernels.put("prefill", new FakeDriver.Declared(16));
        try (CudaModule kernels = small.module(new byte[16], "kernels")) {
            assertThatThrownBy(() -> kernels.kernel("prefill", 256, 64 << 10))
                    .isInstanceOf(CudaException.class)
                    .hasMessageContaining("kernel prefill needs 16 bytes of static and 65536 of dynamic shared memory")
                    .hasMessageContaining("has 65536")
                    .hasMessageContaining("--device cpu");
            kernels.kernel("prefill", 256, (64 << 10) - 16);
        }
    }
}
