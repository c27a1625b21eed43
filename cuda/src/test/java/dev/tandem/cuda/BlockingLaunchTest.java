package dev.tandem.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.cuda.device.CudaLibraries;
import java.util.Map;
import java.util.OptionalInt;
import org.junit.jupiter.api.Test;

/** CUDA_LAUNCH_BLOCKING beside attention on the CPU, which could never end a step. */
class BlockingLaunchTest {
    private static CudaLibraries libraries(Map<String, String> environment) {
        return new CudaLibraries(
                new CudaLibraries.Choice.InstalledOnly(),
                environment,
                () -> {
                    throw new AssertionError("nothing is fetched");
                },
                OptionalInt.empty());
    }

    @Test
    void blockingLaunchesAreRefusedWithARemedy() {
        assertThat(Hardware.blockingLaunches(libraries(Map.of("CUDA_LAUNCH_BLOCKING", "1")))
                        .orElseThrow())
                .contains("CUDA_LAUNCH_BLOCKING")
                .contains("Unset it")
                .contains("--strategy gpu-only");
    }

    @Test
    void otherEnvironmentsAreNot() {
        assertThat(Hardware.blockingLaunches(libraries(Map.of()))).isEmpty();
        assertThat(Hardware.blockingLaunches(libraries(Map.of("CUDA_LAUNCH_BLOCKING", "0"))))
                .isEmpty();
        assertThat(Hardware.blockingLaunches(libraries(Map.of("CUDA_LAUNCH_BLOCKING", ""))))
                .isEmpty();
    }
}
