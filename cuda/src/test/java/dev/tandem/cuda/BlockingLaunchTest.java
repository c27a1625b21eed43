package dev.tandem.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.cuda.device.CudaLibraries;
import java.util.Map;
import java.util.OptionalInt;
import org.junit.jupiter.api.Test;

/** With CUDA_LAUNCH_BLOCKING a step that waits for the CPU would never end, so the executor rejects it. */
class BlockingLaunchTest {
    private static CudaLibraries libraries(Map<String, String> environment) {
        return new CudaLibraries(
                new CudaLibraries.Choice.InstalledOnly(),
                environment,
                () -> {
                    throw new AssertionError("nothing may be downloaded");
                },
                OptionalInt.empty());
    }

    @Test
    void blockingLaunchesAreRejectedWithARemedy() {
        assertThat(Hardware.blockingLaunches(libraries(Map.of("CUDA_LAUNCH_BLOCKING", "1")))
                        .orElseThrow())
                .contains("CUDA_LAUNCH_BLOCKING")
                .contains("Unset it")
                .contains("--strategy gpu-only");
    }

    @Test
    void otherEnvironmentsAreAccepted() {
        assertThat(Hardware.blockingLaunches(libraries(Map.of()))).isEmpty();
        assertThat(Hardware.blockingLaunches(libraries(Map.of("CUDA_LAUNCH_BLOCKING", "0"))))
                .isEmpty();
        assertThat(Hardware.blockingLaunches(libraries(Map.of("CUDA_LAUNCH_BLOCKING", ""))))
                .isEmpty();
    }
}
