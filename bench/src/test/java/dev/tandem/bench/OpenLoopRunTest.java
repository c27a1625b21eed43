package dev.tandem.bench;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.bench.Workload.Lengths;
import dev.tandem.bench.load.Arrivals;
import dev.tandem.bench.load.GoodputTargets;
import dev.tandem.bench.load.Load;
import dev.tandem.bench.load.LoadWindow;
import dev.tandem.bench.load.Metric;
import dev.tandem.bench.load.RequestTimes;
import dev.tandem.engine.executor.ExecutorException;
import dev.tandem.engine.observe.StepRecord;
import dev.tandem.engine.request.FinishReason;
import dev.tandem.engine.request.Request;
import dev.tandem.engine.request.RequestException;
import dev.tandem.engine.request.TokenEvent;
import dev.tandem.engine.request.Usage;
import dev.tandem.engine.step.StepTimes;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;

/**
 * The open loop over an engine that serves each request while it is submitted, on a clock that moves when waited on.
 */
class OpenLoopRunTest {
    private static final long MS = 1_000_000;
    private static final int CONTEXT = 64;
    private static final Workload WORKLOAD =
            new Workload("fixed", List.of(new Lengths(8, 2), new Lengths(60, 9), new Lengths(90, 1)));

    private long now = 7_000 * MS;
    private final List<Long> submitted = new ArrayList<>();
    private final List<Request> seen = new ArrayList<>();
    private final Recorder recorder = new Recorder();

    private final WaitingClock clock = new WaitingClock() {
        @Override
        public long nanos() {
            return now;
        }

        @Override
        public void awaitUntil(long nanos) {
            now = Math.max(now, nanos);
        }
    };

    private OpenLoopRun run(Consumer<Request> engine) {
        return new OpenLoopRun(
                request -> {
                    submitted.add(now - 7_000 * MS);
                    seen.add(request);
                    engine.accept(request);
                },
                new RandomRequests("test", CONTEXT, 100, 0, 1),
                recorder,
                clock,
                WORKLOAD,
                (what, done, total) -> {});
    }

    private static Load load(double perSecond, LoadWindow window) {
        return new Load(new Arrivals.Constant(perSecond), window, GoodputTargets.NONE, 1);
    }

    private static LoadWindow requests(int number) {
        return new LoadWindow.Requests(number, Duration.ZERO);
    }

    /** Serves a request with this many tokens, of which each takes a time. */
    private void serve(Request request, int tokens, long nanos) {
        for (int i = 0; i < tokens; i++) {
            now += nanos;
            recorder.step(new StepRecord(
                    0,
                    new StepRecord.Tokens(0, 1, now >= 7_200 * MS && now < 7_400 * MS ? 1 : 0),
                    0,
                    0,
                    0,
                    0,
                    StepRecord.Sampling.AT_ONCE,
                    StepTimes.NONE));
            request.sink().on(new TokenEvent.Token(3, "", Optional.empty(), false));
        }
        Usage usage = new Usage(8, tokens, 0, 0, 0, 0, 0, 0, 0, List.of());
        request.sink().on(new TokenEvent.Finished(FinishReason.LENGTH, "", "", usage));
    }

    @Test
    void requestsAreSubmittedAtTheirArrivals() throws InterruptedException {
        OpenLoopRun.Result result = run(request -> serve(request, 2, 10 * MS)).run(load(10, requests(4)));

        assertThat(submitted).containsExactly(100 * MS, 200 * MS, 300 * MS, 400 * MS);
        assertThat(result.requests()).extracting(RequestTimes::arrival).isEqualTo(submitted);
        assertThat(result.load().sendDelay().max()).isZero();
        assertThat(result.load().latency(Metric.E2EL).mean()).isEqualTo(20);
        assertThat(seen).extracting(Request::id).doesNotHaveDuplicates();
    }

    /** The engine holds the submitting thread for 300 ms, so the second request is 200 ms late. */
    @Test
    void latencyCountsFromTheIntendedArrival() throws InterruptedException {
        OpenLoopRun.Result result = run(request -> serve(request, 1, 300 * MS)).run(load(10, requests(2)));

        assertThat(submitted).containsExactly(100 * MS, 400 * MS);
        RequestTimes late = result.requests().get(1);
        assertThat(late.arrival()).isEqualTo(200 * MS);
        assertThat(late.sendDelay()).isEqualTo(200 * MS);
        assertThat(late.nanos(Metric.E2EL)).hasValue(500 * MS);
        assertThat(late.nanos(Metric.TTFT)).hasValue(500 * MS);
    }

    /** Each request decodes one token; those from 200 to 400 ms are of the host. */
    @Test
    void onlyTheWindowsTokensCount() throws InterruptedException {
        LoadWindow window = new LoadWindow.Timed(
                Duration.ofMillis(150), Duration.ofMillis(300), Duration.ofMillis(200), Duration.ZERO);
        OpenLoopRun.Result result = run(request -> serve(request, 1, 10 * MS)).run(load(10, window));

        assertThat(submitted).hasSize(6);
        assertThat(result.load().counts().arrived()).isEqualTo(3); // at 200, 300 and 400 ms
        // the first event after the window, at 510 ms, is counted too
        assertThat(result.hostTokenFraction()).isEqualTo(2.0 / 4);
    }

    @Test
    void requestsAreCutToTheContext() throws InterruptedException {
        OpenLoopRun.Result result = run(request -> serve(request, 1, MS)).run(load(10, requests(3)));

        assertThat(seen).extracting(request -> request.prompt().length).containsExactly(8, 60, 63);
        assertThat(seen)
                .extracting(request -> request.sampling().maxTokens().getAsInt())
                .containsExactly(2, 4, 1);
        assertThat(result.cut()).isEqualTo(2);
    }

    @Test
    void aFailedRequestEndsTheRunWithAnError() {
        OpenLoopRun run = run(request -> {
            if (seen.size() == 2) {
                request.sink().on(new TokenEvent.Failed("its logits are NaN"));
            } else {
                serve(request, 1, MS);
            }
        });
        assertThatThrownBy(() -> run.run(load(10, requests(5))))
                .isInstanceOf(ExecutorException.class)
                .hasMessage("the run failed: a request failed: its logits are NaN");
        assertThat(submitted).hasSize(2);
    }

    @Test
    void aRefusedRequestEndsTheRunWithAnError() {
        OpenLoopRun run = run(request -> {
            throw RequestException.of(RequestException.Category.BAD_REQUEST, "the queue is full");
        });
        assertThatThrownBy(() -> run.run(load(10, requests(5))))
                .isInstanceOf(ExecutorException.class)
                .hasMessage("the run failed: a request was refused: the queue is full");
        assertThat(submitted).hasSize(1);
    }

    @Test
    void aRequestThatDoesNotEndIsAnError() {
        OpenLoopRun run = run(request -> {
            if (seen.size() < 3) {
                serve(request, 1, MS);
            }
        });
        assertThatThrownBy(() -> run.run(load(10, requests(3))))
                .isInstanceOf(ExecutorException.class)
                .hasMessage("1 of 3 requests had not ended 0.0 s after the last arrival");
    }
}
