package dev.tandem.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.cuda.device.CudaLibraries;
import dev.tandem.cuda.device.Device;
import dev.tandem.engine.batch.Chunk;
import dev.tandem.engine.batch.KvReader;
import dev.tandem.engine.batch.StepPlan;
import dev.tandem.engine.execute.ExecutorException;
import dev.tandem.model.config.DataType;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** What is said when the GPU refuses. */
@Tag("gpu")
class CudaFaultTest {
    private static ModelShape shape() {
        return GpuRig.shape(4, 2, 64, 256, 512, 301, DataType.BFLOAT16);
    }

    @Test
    void outOfMemoryNamesTheKnobs() {
        try (GpuRig rig = new GpuRig(shape(), 1)) {
            assertThatThrownBy(() -> rig.device.allocate(1L << 45, "a pool far too large"))
                    .isInstanceOf(CudaException.class)
                    .hasMessageContaining("a pool far too large")
                    .hasMessageContaining("--gpu-memory-utilization")
                    .hasMessageContaining("--num-gpu-blocks-override");
        }
    }

    @Test
    void aRefusedLaunchNamesKernelAndCode() {
        try (GpuRig rig = new GpuRig(shape(), 1)) {
            assertThatThrownBy(() -> rig.kernels.swiglu.launch(rig.stream, 0, 1, 0L, 0L, 1))
                    .isInstanceOf(CudaException.class)
                    .hasMessageContaining("swiglu")
                    .hasMessageContaining("CUDA_ERROR_INVALID_VALUE");
        }
    }

    @Test
    void aMissingGpuIsSaid() {
        assertThatThrownBy(() -> new Device(CudaLibraries.driver().orElseThrow(), 99, 0))
                .isInstanceOf(CudaException.class)
                .hasMessageContaining("GPU 99 does not exist");
    }

    @Test
    void aGreenContextHasFewerMultiprocessors() {
        try (Device device = new Device(CudaLibraries.driver().orElseThrow(), 0, 16)) {
            assertThat(device.multiprocessors()).isBetween(8, 24);
            device.stream("limited").close();
        }
    }

    @Test
    void plansOfOtherStrategiesAreRefused() {
        try (CudaExecutor executor = CudaModelTest.executor("llama31", DataType.BFLOAT16, 8, true)) {
            Chunk host = new Chunk(1, 0, new int[] {5}, new int[] {0}, KvReader.CPU_FROM_HOST, Optional.empty());
            assertThatThrownBy(() -> executor.submit(StepPlan.unified(1, List.of(), List.of(host))))
                    .isInstanceOf(ExecutorException.class)
                    .hasMessageContaining("CPU_FROM_HOST");
        }
    }

    @Test
    void whatWasOpenedIsClosed() {
        CudaExecutor executor = CudaModelTest.executor("llama31", DataType.BFLOAT16, 8, true);
        executor.close();
        assertThat(executor.device().open()).isEmpty();
    }
}
