package dev.tandem.cuda.step;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.cuda.ffi.CudaException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

class GraphFallbackTest {
    private final List<String> logged = new ArrayList<>();
    private final List<String> closed = new ArrayList<>();
    private final GraphFallback fallback = new GraphFallback(logged::add);
    private final Recent<Integer, String> cache = new Recent<>(2, () -> {}, closed::add);

    private static String fail(int key) {
        throw new CudaException(
                "cuGraphInstantiateWithFlags failed: CUDA_ERROR_OUT_OF_MEMORY (2)", CudaException.OUT_OF_MEMORY);
    }

    @Test
    void aGraphThatCannotBeInstantiatedIsLoggedOnceAndDoesNotFailTheStep() {
        assertThat(fallback.find(cache, 1, key -> "one")).contains("one");
        assertThat(fallback.find(cache, 2, GraphFallbackTest::fail)).isEmpty();
        assertThat(fallback.find(cache, 3, GraphFallbackTest::fail)).isEmpty();
        assertThat(logged)
                .singleElement()
                .asString()
                .contains("OUT_OF_MEMORY")
                .contains("kernel by kernel")
                .contains("--gpu-memory-utilization");
    }

    @Test
    void afterAFailedInstantiationExistingGraphsAreUsedAndNoneIsCaptured() {
        fallback.find(cache, 1, key -> "one");
        fallback.find(cache, 2, GraphFallbackTest::fail);
        AtomicInteger captures = new AtomicInteger();
        assertThat(fallback.find(cache, 1, key -> "another")).contains("one");
        assertThat(fallback.find(cache, 2, key -> "two" + captures.incrementAndGet()))
                .isEmpty();
        assertThat(captures).hasValue(0);
        assertThat(closed).as("existing graphs stay open").isEmpty();
    }

    @Test
    void otherExceptionsAreRethrown() {
        assertThatThrownBy(() -> fallback.find(cache, 1, key -> {
                    throw new IllegalStateException("a defect");
                }))
                .hasMessage("a defect");
        assertThat(logged).isEmpty();
    }
}
