package dev.tandem.engine.strategy.select;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Scene;
import java.util.ArrayDeque;
import org.junit.jupiter.api.Test;

/** Requests of 2 tokens on a GPU of 50 blocks. */
class GpuDemandTest {
    private static final Budget BUDGET = new Budget(600, 20, 600);
    private static final int PROMPT = 2;

    private final GpuDemand demand = new GpuDemand();
    private final Scene scene = new Scene(50, 60, BUDGET).limit(40);
    private final ArrayDeque<Sequence> waiting = new ArrayDeque<>();

    private void arrive(int requests) {
        for (int i = 0; i < requests; i++) {
            waiting.add(scene.waiting(PROMPT));
        }
        demand.completed(scene.state);
    }

    /** Requests leave the queue. */
    private void start(int requests) {
        for (int i = 0; i < requests; i++) {
            scene.committer.remove(waiting.remove());
        }
        demand.completed(scene.state);
    }

    /** Requests on the GPU end, and as many arrive and start. */
    private void end(int requests) {
        for (int i = 0; i < requests; i++) {
            scene.committer.remove(scene.gpu(PROMPT));
            demand.completed(scene.state);
        }
    }

    @Test
    void aLongQueueNeedsTheHost() {
        arrive(GpuDemand.MAX_WAITING);
        assertThat(demand.needsHost()).as("64 requests wait").isFalse();
        arrive(1);
        assertThat(demand.needsHost()).as("65 requests wait").isTrue();
    }

    @Test
    void aShorterQueueNeedsTheHostOnceItsFirstRequestHasWaitedLong() {
        arrive(GpuDemand.MAX_WAITING_LONG + 1);
        scene.committer.now(GpuDemand.MAX_WAIT_NANOS);
        demand.completed(scene.state);
        assertThat(demand.needsHost()).as("33 requests wait, for 4.5 s").isFalse();
        scene.committer.now(GpuDemand.MAX_WAIT_NANOS + 1);
        demand.completed(scene.state);
        assertThat(demand.needsHost()).as("33 requests wait for longer").isTrue();
    }

    @Test
    void fewRequestsThatWaitLongDoNotNeedTheHost() {
        scene.committer.now(100 * GpuDemand.MAX_WAIT_NANOS);
        arrive(GpuDemand.MAX_WAITING_LONG);
        assertThat(demand.needsHost()).as("32 requests wait").isFalse();
        arrive(1);
        assertThat(demand.needsHost()).as("33 requests wait").isTrue();
    }

    @Test
    void timeOnTheGpuIsNotWaiting() {
        arrive(GpuDemand.MAX_WAITING_LONG + 1);
        waiting.element().timings().scheduledAt(GpuDemand.MAX_WAIT_NANOS);
        scene.committer.now(100 * GpuDemand.MAX_WAIT_NANOS);
        demand.completed(scene.state);
        assertThat(demand.needsHost())
                .as("the first has run since 4.5 s after its arrival and waits to be computed again")
                .isFalse();
    }

    @Test
    void theHostIsNeededUntilAllRequestsFitTheGpu() {
        arrive(GpuDemand.MAX_WAITING + 1);
        Sequence host = scene.host(PROMPT);
        start(GpuDemand.MAX_WAITING);
        assertThat(demand.needsHost()).as("one request waits").isTrue();
        start(1);
        assertThat(demand.needsHost()).as("one is on the host").isTrue();
        scene.committer.remove(host);
        demand.completed(scene.state);
        assertThat(demand.needsHost()).as("none is left").isFalse();
        arrive(GpuDemand.MAX_WAITING);
        assertThat(demand.needsHost()).as("64 requests wait again").isFalse();
    }

    @Test
    void theHostIsNeededWhileATokenIsInFlight() {
        scene.inFlight(PROMPT);
        arrive(GpuDemand.MAX_WAITING + 1);
        start(GpuDemand.MAX_WAITING + 1);
        assertThat(demand.needsHost()).isTrue();
    }

    @Test
    void aShortQueueThatNeverEndsNeedsTheHost() {
        arrive(1);
        end(GpuDemand.MAX_ENDED);
        assertThat(demand.needsHost()).as("2048 requests have ended").isFalse();
        end(1);
        assertThat(demand.needsHost()).as("2049 requests have ended").isTrue();
    }

    @Test
    void aQueueThatWasEmptyCountsAnew() {
        arrive(1);
        end(GpuDemand.MAX_ENDED);
        start(1);
        arrive(1);
        end(GpuDemand.MAX_ENDED);
        assertThat(demand.needsHost()).isFalse();
    }

    @Test
    void requestsOnTheHostAloneDoNotNeedIt() {
        scene.host(PROMPT);
        demand.completed(scene.state);
        assertThat(demand.needsHost())
                .as("gpu-only keeps preempted requests there")
                .isFalse();
    }
}
