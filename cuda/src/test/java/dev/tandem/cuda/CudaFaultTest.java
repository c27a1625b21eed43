package dev.tandem.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.cuda.device.CudaLibraries;
import dev.tandem.cuda.device.Device;
import dev.tandem.cuda.ffi.CudaException;
import dev.tandem.cuda.kernels.GpuRig;
import dev.tandem.cuda.kernels.ModelShape;
import dev.tandem.cuda.step.StepDeadline;
import dev.tandem.engine.EngineHarness;
import dev.tandem.engine.executor.ExecutorException;
import dev.tandem.engine.sampling.TokenSampler;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Preemption;
import dev.tandem.engine.step.AttentionSite;
import dev.tandem.engine.step.Chunk;
import dev.tandem.engine.step.StepPlan;
import dev.tandem.model.config.DataType;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Errors of the GPU: their messages, and which requests they end. */
@Tag("gpu")
class CudaFaultTest {
    private static ModelShape shape() {
        return GpuRig.shape(4, 2, 64, 256, 512, 301, DataType.BFLOAT16);
    }

    @Test
    void anOutOfMemoryErrorNamesTheFlags() {
        try (GpuRig rig = new GpuRig(shape(), 1)) {
            assertThatThrownBy(() -> rig.device.allocate(1L << 45, "a pool far too large"))
                    .isInstanceOf(CudaException.class)
                    .hasMessageContaining("a pool far too large")
                    .hasMessageContaining("--gpu-memory-utilization")
                    .hasMessageContaining("--num-gpu-blocks-override");
        }
    }

    @Test
    void theErrorOfAFailedLaunchNamesKernelAndCode() {
        try (GpuRig rig = new GpuRig(shape(), 1)) {
            assertThatThrownBy(() -> rig.kernels.swiglu.launch(rig.stream, 0, 1, 0L, 0L, 1))
                    .isInstanceOf(CudaException.class)
                    .hasMessageContaining("swiglu")
                    .hasMessageContaining("CUDA_ERROR_INVALID_VALUE");
        }
    }

    @Test
    void anErrorNamesAMissingGpu() {
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
    void plansWithHostTokensAreRejectedWithoutAttentionThreads() {
        try (CudaExecutor executor = CudaModelTest.executor("llama31", DataType.BFLOAT16, 8, true)) {
            Chunk host = new Chunk(1, 0, new int[] {5}, new int[] {0}, AttentionSite.CPU_FROM_HOST, Optional.empty());
            assertThatThrownBy(() -> executor.submit(StepPlan.unified(1, List.of(), List.of(host))))
                    .isInstanceOf(ExecutorException.class)
                    .hasMessageContaining("CPU_FROM_HOST");
        }
    }

    /** With graphs the next step has been submitted when the NaN is seen; without, it has not. */
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void aRowOfNaNFailsOnlyItsOwnRequest(boolean graphs) {
        CudaExecutor executor = CudaModelTest.executor("llama31", DataType.FLOAT16, 200, graphs);
        try (EngineHarness engine = EngineHarness.gpuOnly(executor, new Budget(256, 64, 64), Preemption.SWAP)) {
            engine.failuresExpected = true;
            for (int i = 0; i < 20; i++) {
                engine.submit("r" + i, new int[] {5, 9, 200, 31, i}, EngineHarness.greedy(40));
            }
            for (int i = 0; i < 5; i++) {
                engine.step();
            }
            executor.faults().poisonNextRow();
            engine.run();
            assertThat(executor.faults().poisonedRows()).isEqualTo(1);
            List<EngineHarness.Answer> failed = engine.answers.values().stream()
                    .filter(answer -> answer.failure != null)
                    .toList();
            assertThat(failed)
                    .singleElement()
                    .satisfies(answer -> assertThat(answer.failure)
                            .contains(TokenSampler.NOT_FINITE)
                            .contains("--dtype bfloat16"));
            assertThat(engine.answers.values())
                    .filteredOn(answer -> answer.failure == null)
                    .allSatisfy(answer -> assertThat(answer.tokens).hasSize(40));
            assertThat(engine.loop.stats().hostLost()).isEmpty();
            assertThat(engine.loop.stats().gpu().used()).isZero();
        }
    }

    @Test
    void aHungStepEndsTheExecutorAndClosingFreesEverything() {
        CudaExecutor executor = CudaModelTest.executor("llama31", DataType.BFLOAT16, 8, true, 2, 10_000);
        executor.faults().deadline(new StepDeadline(400_000_000L, 0));
        assertThat(executor.trouble()).isEmpty();
        executor.faults().hang();
        Chunk chunk = new Chunk(
                1,
                0,
                new int[] {5},
                new int[] {0},
                AttentionSite.GPU_FROM_GPU,
                Optional.of(CudaModelTest.greedy(new int[] {5})));
        executor.submit(StepPlan.unified(7, List.of(), List.of(chunk)));
        assertThatThrownBy(executor::poll)
                .isInstanceOf(ExecutorException.class)
                .hasMessageContaining("did not finish step 7 within 0.4 s");
        assertThat(executor.trouble().orElseThrow())
                .contains("step 7 has kept the GPU for")
                .contains("counts as hung");
        executor.close(); // stops the transfer kernel, for which the step waits
        assertThat(executor.device().open()).isEmpty();
    }

    @Test
    void closingTheExecutorFreesEverything() {
        CudaExecutor executor = CudaModelTest.executor("llama31", DataType.BFLOAT16, 8, true);
        executor.close();
        assertThat(executor.device().open()).isEmpty();
    }
}
