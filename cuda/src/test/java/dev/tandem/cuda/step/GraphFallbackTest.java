package dev.tandem.cuda.step;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.cuda.ffi.CudaException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

class GraphFallbackTest {
    private final List<String> said = new ArrayList<>();
    private final List<String> closed = new ArrayList<>();
    private final GraphFallback fallback = new GraphFallback(said::add);
    private final Recent<Integer, String> kept = new Recent<>(2, () -> {}, closed::add);

    private static String refuse(int key) {
        throw new CudaException(
                "cuGraphInstantiateWithFlags failed: CUDA_ERROR_OUT_OF_MEMORY (2)", CudaException.OUT_OF_MEMORY);
    }

    @Test
    void aGraphThatTheDriverRefusesIsNoFailureAndIsSaidOnce() {
        assertThat(fallback.find(kept, 1, key -> "one")).contains("one");
        assertThat(fallback.find(kept, 2, GraphFallbackTest::refuse)).isEmpty();
        assertThat(fallback.find(kept, 3, GraphFallbackTest::refuse)).isEmpty();
        assertThat(said)
                .singleElement()
                .asString()
                .contains("OUT_OF_MEMORY")
                .contains("kernel by kernel")
                .contains("--gpu-memory-utilization");
    }

    @Test
    void graphsThatExistAreUsedAfterARefusalAndNoneIsMade() {
        fallback.find(kept, 1, key -> "one");
        fallback.find(kept, 2, GraphFallbackTest::refuse);
        AtomicInteger captures = new AtomicInteger();
        assertThat(fallback.find(kept, 1, key -> "another")).contains("one");
        assertThat(fallback.find(kept, 2, key -> "two" + captures.incrementAndGet()))
                .isEmpty();
        assertThat(captures).hasValue(0);
        assertThat(closed).as("those in use stay").isEmpty();
    }

    @Test
    void whatThrowsForAnotherReasonIsNotHidden() {
        assertThatThrownBy(() -> fallback.find(kept, 1, key -> {
                    throw new IllegalStateException("a defect");
                }))
                .hasMessage("a defect");
        assertThat(said).isEmpty();
    }
}
