package dev.tandem.cuda.kernels;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.cuda.ffi.CudaException;
import dev.tandem.model.config.DataType;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class ModelShapeTest {
    private static ModelShape heads(int headDim) {
        return GpuRig.shape(2, 2, headDim, 64, 64, 100, DataType.BFLOAT16);
    }

    @ParameterizedTest
    @CsvSource({"4, 1", "16, 2", "64, 8", "80, 16", "100, 32", "128, 16", "136, 32", "256, 32"})
    void threadsPerHeadAreAPowerOfTwo(int headDim, int lanes) {
        assertThat(heads(headDim).headLanes()).isEqualTo(lanes);
    }

    @ParameterizedTest
    @ValueSource(ints = {132, 252, 264})
    void anErrorNamesUnsupportedHeadSizes(int headDim) {
        assertThatThrownBy(() -> heads(headDim))
                .isInstanceOf(CudaException.class)
                .hasMessageContaining("heads of " + headDim + " in groups of 1")
                .hasMessageContaining("multiples of 8 from 132 on")
                .hasMessageContaining("--device cpu");
    }

    @Test
    void anErrorNamesHeadSizesThatAreNoMultipleOf4() {
        assertThatThrownBy(() -> heads(66))
                .isInstanceOf(CudaException.class)
                .hasMessageContaining("heads of 66 are no multiple of 4");
    }
}
