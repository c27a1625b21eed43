package dev.tandem.cuda.device;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.cuda.ffi.CudaException;
import dev.tandem.engine.clock.Clock;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Streams of a driver whose calls fail or never finish. */
@Timeout(60)
class StreamTest {
    private static final int NOT_READY = 600;
    private static final int OUT_OF_MEMORY = 2;

    private final FakeDriver fake = new FakeDriver();
    private long now;
    /** Each reading advances it by one second. */
    private final Clock clock = () -> now += 1_000_000_000L;

    private final Device device = new Device(fake.driver(), 0, 0, clock);
    private final Stream stream = device.stream("test");

    private void run(Runnable capture) {
        fake.calls.clear();
        capture.run();
    }

    @Test
    void aCaptureBecomesAGraph() {
        run(() -> stream.capture(() -> {}).close());
        assertThat(fake.calls)
                .containsExactly(
                        "cuStreamBeginCapture_v2",
                        "cuStreamEndCapture",
                        "cuGraphInstantiateWithFlags",
                        "cuGraphDestroy",
                        "cuGraphExecDestroy");
    }

    @Test
    void aCaptureThatThrowsIsEndedAndItsGraphDestroyed() {
        for (Throwable failure : new Throwable[] {new IllegalStateException("work"), new AssertionError("work")}) {
            run(() -> assertThatThrownBy(() -> stream.capture(() -> {
                        if (failure instanceof Error error) {
                            throw error;
                        }
                        throw (RuntimeException) failure;
                    }))
                    .isSameAs(failure));
            assertThat(fake.calls)
                    .as("%s", failure)
                    .containsExactly("cuStreamBeginCapture_v2", "cuStreamEndCapture", "cuGraphDestroy");
        }
    }

    @Test
    void anInvalidatedCaptureHasNoGraphToDestroy() {
        fake.codes.put("cuStreamEndCapture", 901);
        run(() -> assertThatThrownBy(() -> stream.capture(() -> {}))
                .isInstanceOf(CudaException.class)
                .hasMessageContaining("901"));
        assertThat(fake.calls).doesNotContain("cuGraphDestroy", "cuGraphInstantiateWithFlags");
    }

    @Test
    void aGraphThatCannotBeInstantiatedIsDestroyed() {
        fake.codes.put("cuGraphInstantiateWithFlags", OUT_OF_MEMORY);
        run(() -> assertThatThrownBy(() -> stream.capture(() -> {}))
                .isInstanceOfSatisfying(
                        CudaException.class, e -> assertThat(e.code()).isEqualTo(OUT_OF_MEMORY)));
        assertThat(fake.calls.getLast()).isNotEqualTo("cuGraphInstantiateWithFlags");
        assertThat(fake.calls).contains("cuGraphDestroy");
    }

    @Test
    void waitingForAStreamThatNeverFinishesTimesOut() {
        fake.codes.put("cuStreamQuery", NOT_READY);
        assertThat(stream.runsOut(5_000_000_000L)).isFalse();
        assertThatThrownBy(stream::synchronise)
                .isInstanceOf(CudaException.class)
                .hasMessageContaining("'test'")
                .hasMessageContaining("within 120 s");
    }

    @Test
    void anErrorReportsThatAnEarlierKernelFailed() {
        fake.codes.put("cuStreamQuery", 700);
        assertThatThrownBy(stream::synchronise)
                .isInstanceOfSatisfying(
                        CudaException.class, e -> assertThat(e.code()).isEqualTo(700))
                .hasMessageContaining("a kernel before it failed");
    }
}
