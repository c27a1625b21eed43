package dev.tandem.cuda.sampling;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.cuda.device.Device;
import dev.tandem.cuda.device.FakeDriver;
import dev.tandem.cuda.device.Stream;
import dev.tandem.cuda.ffi.CudaException;
import dev.tandem.cuda.kernels.GpuRig;
import dev.tandem.cuda.kernels.ModelShape;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.engine.sampling.TokenSampler;
import dev.tandem.engine.step.AttentionSite;
import dev.tandem.engine.step.StepResult;
import dev.tandem.model.config.DataType;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import org.junit.jupiter.api.Test;

/** Rows whose tokens cannot be sampled. It needs no GPU. */
class SampledTokensTest {
    private final FakeDriver fake = new FakeDriver();
    private final Device device = new Device(fake.driver(), 0, 0);
    private final Stream stream = device.stream("test");
    private final ModelShape shape = GpuRig.shape(4, 2, 64, 256, 512, 301, DataType.FLOAT16);
    private final SampleReport tokens =
            new SampleReport(device, stream, device.allocate(1 << 16, "logits"), shape, 8, 4);
    private final List<StepResult.Sampled> sampled = new ArrayList<>();
    private final List<StepResult.Lost> lost = new ArrayList<>();

    private static TokenSampler sampler() {
        return new TokenSampler(SamplingParams.builder().temperature(0).build(), new int[] {1}, Set.of(), 0);
    }

    private void take(long sequence, boolean onTheGpu, int row) {
        TokenSampler sampler = sampler();
        Optional<TokenSampler.Draw> draw = onTheGpu ? sampler.draw(0) : Optional.empty();
        tokens.take(sequence, sampler, draw, 2, row, AttentionSite.GPU_FROM_GPU, sampled, lost);
    }

    @Test
    void aRowOfNaNIsLostAndTheNextRowIsSampled() {
        tokens.of(2).setAtIndex(JAVA_INT, 0, -1);
        tokens.of(2).setAtIndex(JAVA_INT, 1, 77);
        take(5, true, 0);
        take(6, true, 1);
        assertThat(lost).singleElement().satisfies(row -> {
            assertThat(row.sequence()).isEqualTo(5);
            assertThat(row.cause()).isEqualTo(StepResult.Cause.SAMPLING);
            assertThat(row.message()).contains(TokenSampler.NOT_FINITE).contains("--dtype bfloat16");
            assertThat(row.stillInUse()).isFalse();
        });
        assertThat(sampled).singleElement().satisfies(row -> {
            assertThat(row.sequence()).isEqualTo(6);
            assertThat(row.choice().token()).isEqualTo(77);
        });
    }

    @Test
    void aRowWhoseSamplerThrowsIsLost() {
        fake.copied =
                -1; // the row's logits become NaN: the sampler on the CPU throws, though the GPU's sampler did not
        take(5, false, 0);
        assertThat(sampled).isEmpty();
        assertThat(lost)
                .singleElement()
                .satisfies(row -> assertThat(row.cause()).isEqualTo(StepResult.Cause.SAMPLING));
    }

    @Test
    void aGpuFailureIsNotTreatedAsALostRow() {
        fake.codes.put("cuStreamQuery", 700);
        assertThatThrownBy(() -> take(5, false, 0)).isInstanceOf(CudaException.class);
        assertThat(lost).isEmpty();
    }
}
